"""What every endpoint needs."""

from typing import Annotated

from fastapi import Depends, Request

from quillpost.app.container import Container


def get_container(request: Request) -> Container:
    container: Container = request.app.state.container
    return container


Services = Annotated[Container, Depends(get_container)]
