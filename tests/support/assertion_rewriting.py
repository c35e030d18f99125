"""What a test says when it fails is written into it beforehand, by pytest, which takes half a minute for all
of them. Once for all workers: each begins with other files, and finds those of the others done."""

from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parents[1]


def rewrite_a_share(config: pytest.Config, *, place: int, among: int) -> None:
    state = config.stash[rewrite.assertstate_key]
    for file in sorted(TESTS.rglob("test_*.py"))[place::among]:
        rewritten = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(file, rewritten) is None and rewrite.try_makedirs(rewritten.parent):
            stamp, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, stamp, rewritten)
