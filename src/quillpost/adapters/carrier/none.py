"""No feed yet: a live installation before its carrier subscription. Pieces stay where the press left them."""

from datetime import datetime

from quillpost.ports import CarrierReport


class NoFeed:
    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        return CarrierReport(scans=())

    def settled(self, receipt: tuple[str, ...]) -> None: ...
