"""The API's giftcards."""
