"""One server process of several, from its beginning."""

import gc

gc.disable()  # as for every command, see `quillpost.__main__`

from quillpost.cli.server import app_of_child  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["app_of_child"]
