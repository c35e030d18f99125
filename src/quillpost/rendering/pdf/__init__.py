"""PDF files: a compact writer, fonts, colors and metadata."""
