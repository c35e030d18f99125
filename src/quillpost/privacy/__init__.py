"""What becomes of people who do not want to be known any more, and of what has grown old."""
