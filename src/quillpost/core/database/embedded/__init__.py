"""The PostgreSQL that Quillpost brings along."""
