"""The service on a machine that had nothing of it: started as newcomers start it, and gone with the test."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.processes import OUR_PROGRAM, Service, free_port

JOIN = re.compile(r"Set password (\S+)")


@contextmanager
def bare_service(folder: Path, *, program: Sequence[str] = OUR_PROGRAM, **settings: str) -> Iterator[Service]:
    """Its home is not in the test's own folder: that is closed to the database server's own user."""
    home = Path(tempfile.mkdtemp(prefix="quillpost-home-"))
    home.chmod(0o755)
    chosen = {"QUILLPOST_HOME": str(home), **settings}
    service = Service(folder / "service.log", "--welcome", port=free_port(), settings=chosen, program=program)
    try:
        yield service.ready()
        assert service.stop() == 0, service.output
    finally:
        service.kill()
        shutil.rmtree(home, ignore_errors=True)


def find_join_link(service: Service) -> str:
    """Where the first owner chooses a password, as the terminal shows it."""
    found = JOIN.search(service.output)
    assert found, service.output
    return found[1]
