"""`quillpost doctor`: what is wrong with an installation."""
