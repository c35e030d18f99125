"""What a check-up finds."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's table."""

    subject: str
    verdict: Literal["ok", "warning", "broken"]
    what: str
    advice: str = ""
