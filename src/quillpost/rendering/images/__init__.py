"""What callers bring: pictures and PDFs, checked and made printable."""
