"""Forgetting from the command line."""

import io
from pathlib import Path

import pytest

from support.cli_results import Quillpost


def test_an_operator_erases_a_person_and_sees_what_is_kept(
    quillpost: Quillpost, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"database_url": conninfo, "home": tmp_path}
    made = quillpost("account", "create", "--email", "a@example.com", "--name", "A", **place)
    assert made.code == 0
    whom = ("--account", "a@example.com", "--address", "12 Main St, Austin, TX 78701")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    declined = quillpost("erase", *whom, **place)
    assert (declined.code, "On lists: 0. Pieces: 0." in declined.out, "Erased." in declined.out) == (1, True, False)
    done = quillpost("erase", *whom, "--yes", **place)
    assert (done.code, "Erased. Files are removed" in done.out) == (0, True)
    assert quillpost("erase", "--account", "a@example.com", **place).is_one_sentence()
    assert quillpost("erase", *whom[2:], "--account", "b@example.com", **place).is_one_sentence()

    shown = quillpost("retention", columns=80, **place, keep_people_days=400)
    rows = {line.split()[-1]: line for line in shown.out.splitlines()}
    assert "400" in rows["QUILLPOST_KEEP_PEOPLE_DAYS"]
    assert "QUILLPOST_KEEP_FACTS_DAYS" in rows
    assert max(map(len, shown.out.splitlines())) <= 80
