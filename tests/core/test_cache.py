"""What was read a moment ago is not read again, and memory stays bounded."""

from quillpost.core.cache import SharedCache


def test_a_thing_is_read_once_while_it_is_recent() -> None:
    read: list[str] = []

    def fetch(key: str) -> bytes:
        return recent.get(key, lambda: read.append(key) or key.encode() * 4)  # type: ignore[func-returns-value]

    recent: SharedCache[str, bytes] = SharedCache(max_size=8, size_of=len)
    assert [fetch(key) for key in "abab"] == [b"aaaa", b"bbbb", b"aaaa", b"bbbb"]
    assert read == ["a", "b"]
    fetch("a")
    fetch("c")
    assert (fetch("a"), read) == (b"aaaa", ["a", "b", "c"])
    fetch("b")
    assert read == ["a", "b", "c", "b"]


def test_what_is_too_large_is_not_kept() -> None:
    read: list[int] = []
    recent: SharedCache[int, bytes] = SharedCache(max_size=8, size_of=len)
    for _ in range(2):
        assert len(recent.get(1, lambda: read.append(1) or bytes(9))) == 9  # type: ignore[func-returns-value]
    assert read == [1, 1]
