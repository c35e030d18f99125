"""What the metadata of a send may be; that it comes back to the letter is proven with orders."""

import json

import pytest

from quillpost.app.container import Container
from support.factories import Account
from support.traces import metadata_text, postcard_with, send_raw, traces

LIMIT = 8_192


@pytest.mark.parametrize("letter", ["x", "é", "漢", "🙂"])
def test_the_limit_counts_bytes_of_compact_utf_8(owner: Account, container: Container, letter: str) -> None:
    def of_bytes(size: int) -> dict[str, str]:
        room = size - len('{"k":""}')
        width = len(letter.encode())
        return {"k": "." * (room % width) + letter * (room // width)}

    largest = of_bytes(LIMIT)
    assert len(json.dumps(largest, ensure_ascii=False, separators=(",", ":")).encode()) == LIMIT
    assert owner.send(metadata=largest).status_code == 200
    before = traces(container)
    refused = owner.send(metadata=of_bytes(LIMIT + 1))
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == ["metadata"]
    assert "8,193 bytes" in refused.json()["message"]
    assert traces(container) == before


@pytest.mark.parametrize("wrong", ["[]", '["a"]', '"text"', "5", "true", "1.5"])
def test_metadata_that_is_no_object_is_refused(owner: Account, container: Container, wrong: str) -> None:
    before = traces(container)
    refused = send_raw(owner, postcard_with("metadata", wrong))
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"metadata": ["metadata must be a JSON object of key/value pairs."]}
    assert traces(container) == before


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_nesting_without_end_is_refused_and_sensible_nesting_kept(
    owner: Account, container: Container, opening: str, closing: str
) -> None:
    def nested(levels: int) -> str:
        return '{"a":' + opening * levels + "1" + closing * levels + "}"

    order_id = send_raw(owner, postcard_with("metadata", nested(30))).json()["id"]
    assert metadata_text(owner.get(f"/orders/{order_id}")) == nested(30)
    before = traces(container)
    for levels in (31, 900, 4_000):
        assert send_raw(owner, postcard_with("metadata", nested(levels))).status_code == 422, levels
    assert traces(container) == before
