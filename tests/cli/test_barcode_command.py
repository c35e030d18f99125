"""`quillpost barcode`, as a process of its own."""

import subprocess
import sys
from pathlib import Path

from support.cli_results import Quillpost

LINES = """01234567094987654321
01234567094987654321 01234567891
0123456709498765432
"""
ANSWERS = """ATTFATTDTTADTAATTDTDTATTDAFDDFADFDFTFFFFFTATFAAAATDFFTDAADFTFDTDT
AADTFFDFTDADTAADAATFDTDDAAADDTDTTDAFADADDDTFFFDDTTTADFAAADFTDAADA
error 09
"""


def test_lines_from_standard_input_become_letters_or_codes() -> None:
    command = [sys.executable, "-m", "quillpost", "barcode"]
    ended = subprocess.run(command, input=LINES, capture_output=True, text=True, check=True)
    assert ended.stdout == ANSWERS
    assert ended.stderr == ""


def test_lines_may_be_in_files(tmp_path: Path, quillpost: Quillpost) -> None:
    file = tmp_path / "pieces"
    file.write_text(LINES)
    outcome = quillpost("barcode", file, file)
    assert (outcome.code, outcome.out) == (0, ANSWERS * 2)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("barcode", tmp_path / "missing")
    assert outcome.is_one_sentence()
