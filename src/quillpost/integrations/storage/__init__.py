"""Where print files, previews and uploads are kept."""
