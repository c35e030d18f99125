"""`python -m quillpost` is `quillpost`."""

from quillpost.cli import main

main()
