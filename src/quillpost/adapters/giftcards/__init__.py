"""Who issues gift cards."""
