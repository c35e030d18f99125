"""The mailing statement of a batch adds up to its manifest."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quillpost.fulfillment.batches.rules import build_statement, statement_to_json

MADE = datetime(2026, 5, 4, 12, tzinfo=UTC)
MAILER = "123456789"


def row(position: int, postal_code: str, *, country: str = "US") -> dict[str, object]:
    tracking = f"00310{MAILER}{position:06d}" if country == "US" else None
    return {"position": position, "postal_code": postal_code, "country": country, "tracking": tracking}


def of(rows: list[dict[str, object]], *, mailer_id: str | None = MAILER) -> dict[str, Any]:
    return build_statement(
        rows,
        reference="batch-000007",
        product_name="postcard-4x6",
        mail_class="first",
        mailer_id=mailer_id,
        indicia=["FIRST-CLASS", "PERMIT 1"],
        created_at=MADE,
    )


def test_it_sums_up_what_goes_to_the_post() -> None:
    rows = [row(1, "10001"), row(2, "10002-0003"), row(3, "78701"), row(4, "H0H 0H0", country="CA")]
    assert of(rows) == {
        "reference": "batch-000007",
        "made_at": "2026-05-04T12:00:00Z",
        "piece": "postcard-4x6",
        "mail_class": "first",
        "mailer_id": MAILER,
        "indicia": ["FIRST-CLASS", "PERMIT 1"],
        "pieces": 4,
        "with_barcode": 3,
        "without_barcode": 1,
        "domestic": 3,
        "abroad": 1,
        "serials": {"first": "000001", "last": "000003"},
        "by_zip3": [
            {"zip3": "100", "pieces": 2, "first_position": 1, "last_position": 2},
            {"zip3": "787", "pieces": 1, "first_position": 3, "last_position": 3},
        ],
        "by_country": {"CA": 1},
    }


def test_mail_for_abroad_alone_has_no_serials() -> None:
    found = of([row(1, "SW1A 1AA", country="GB")], mailer_id=None)
    assert (found["serials"], found["mailer_id"], found["by_zip3"]) == (None, None, [])


def test_a_short_mailer_id_has_long_serials() -> None:
    rows: list[dict[str, object]] = [{"tracking": "00310" + "999999" + "000000042", "country": "US"}]
    assert of(rows, mailer_id="999999")["serials"] == {"first": "000000042", "last": "000000042"}


def test_rows_without_positions_are_counted_from_one() -> None:
    rows: list[dict[str, object]] = [{"country": "US", "postal_code": "10001"}] * 2
    [group] = of(rows)["by_zip3"]
    assert (group["first_position"], group["last_position"]) == (1, 2)


@given(
    st.lists(
        st.tuples(st.from_regex(r"[0-9]{5}", fullmatch=True), st.sampled_from(["US", "US", "CA", "GB"])), max_size=50
    )
)
def test_every_piece_is_counted_once(pieces: list[tuple[str, str]]) -> None:
    rows = [row(place, code, country=country) for place, (code, country) in enumerate(sorted(pieces), 1)]
    found = json.loads(statement_to_json(of(rows)))
    groups = found["by_zip3"]
    assert found["pieces"] == len(rows) == found["domestic"] + found["abroad"]
    assert found["with_barcode"] + found["without_barcode"] == len(rows)
    assert sum(group["pieces"] for group in groups) == found["domestic"]
    assert sum(found["by_country"].values()) == found["abroad"]
    places = [group[end] for group in groups for end in ("first_position", "last_position")]
    assert places == sorted(places)
