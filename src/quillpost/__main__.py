"""The command `quillpost`, and `python -m quillpost`."""

import gc

gc.disable()  # all that is imported stays: to look through it for garbage took a sixth of the start

from quillpost.cli import main  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["main"]

if __name__ == "__main__":
    main()
