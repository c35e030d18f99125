"""The API's embeds."""
