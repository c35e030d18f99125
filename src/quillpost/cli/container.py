"""The whole service for a command that comes and goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.cli.runtime import prepare_database
from quillpost.core.settings import Settings


@contextmanager
def open_container() -> Iterator[tuple[Settings, Container]]:
    """The parts for a command that comes and goes, beside a running server or alone."""
    settings = runtime.load_settings()
    service_runtime = runtime.open_runtime(settings)
    try:
        prepare_database(service_runtime.conninfo)
        container = bootstrap.build_container(settings, service_runtime.conninfo)
        try:
            yield settings, container
        finally:
            container.db.close()
    finally:
        service_runtime.close()
