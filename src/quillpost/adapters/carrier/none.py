"""No feed yet: a live installation before its carrier subscription. Pieces stay where the press left them."""

from collections.abc import Sequence
from datetime import datetime

from quillpost.ports import CarrierScan


class NoFeed:
    def poll(self, *, now: datetime) -> Sequence[CarrierScan]:  # noqa: ARG002
        return ()

    def settled(self) -> None: ...

    def expects_more(self) -> bool:
        return False
