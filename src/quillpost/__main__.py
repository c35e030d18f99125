"""The command `quillpost`, and `python -m quillpost`."""

from quillpost.cli import main

if __name__ == "__main__":
    main()
