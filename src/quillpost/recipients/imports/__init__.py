"""Files of people: read as they come, examined on all processors, put on a list all at once."""
