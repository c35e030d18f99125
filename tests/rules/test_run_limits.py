"""A run of this suite that has a limit: what it leaves out once its time is over, and what it never does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.costly
ROOT = Path(__file__).parents[2]
TWO = """
import pytest

def test_ordinary(): pass

@pytest.mark.costly
def test_costly(): pass
"""


@pytest.mark.parametrize(
    ("until", "said"),
    [("0", ["1 passed, 1 skipped", "1 costly tests not begun", "   1 of "]), ("inf", ["2 passed"])],
)
def test_costly_tests_are_begun_in_time_or_counted(tmp_path: Path, until: str, said: list[str]) -> None:
    file = tmp_path / "test_two.py"
    file.write_text(TWO)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "conftest", file],
        env=os.environ | {"TESTS_UNTIL": until, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for words in said:
        assert words in run.stdout
