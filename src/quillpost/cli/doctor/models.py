"""What a check-up finds."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    subject: str
    status: Literal["ok", "warning", "broken"]
    message: str
    advice: str = ""
