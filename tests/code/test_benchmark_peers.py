"""A table without one of its peers shows nothing of us: the command that measures says so, and fails."""

from typing import Any

import pytest
from benchmarks import __main__ as benchmarks

WHOLE: dict[str, Any] = {"name": "compose", "ratios": {"reportlab": 39.0}, "growth": {"absent": {}}}
LACKING: dict[str, Any] = {
    "name": "compose",
    "absent": {"skia": "No module named 'skia'"},
    "preview": {"absent": {"chromium": "not found"}},
}


@pytest.mark.parametrize(("result", "code"), [(WHOLE, 0), (LACKING, 1)])
def test_a_missing_peer_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], result: dict[str, Any], code: int
) -> None:
    monkeypatch.setattr(benchmarks, "TABLES", {"compose": lambda: result})
    assert benchmarks.main("compose") == benchmarks.main(None) == code
    output = capsys.readouterr().out
    for peer in ("compose: skia (No module named 'skia')", "compose: chromium (not found)"):
        assert (peer in output) == bool(code)


def test_an_unknown_benchmark_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main("compost") == 1
    assert "There is no benchmark compost. Known: authenticate, compose" in capsys.readouterr().out
