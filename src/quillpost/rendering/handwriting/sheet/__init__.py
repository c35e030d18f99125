"""The printed sheet on which a sender writes, and how a picture of it becomes pen strokes."""
