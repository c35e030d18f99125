"""The forms of a moment."""

from datetime import UTC, datetime, timedelta

import pytest

from quillpost.core.text import format_time_ago

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ({"seconds": 0}, "just now"),
        ({"milliseconds": 999}, "just now"),
        ({"seconds": 1}, "1 second ago"),
        ({"seconds": 59}, "59 seconds ago"),
        ({"seconds": 60}, "1 minute ago"),
        ({"minutes": 5, "seconds": 59}, "5 minutes ago"),
        ({"minutes": 60}, "1 hour ago"),
        ({"hours": 23, "minutes": 59}, "23 hours ago"),
        ({"hours": 24}, "1 day ago"),
        ({"days": 6}, "6 days ago"),
        ({"days": 7}, "1 week ago"),
        ({"days": 29}, "4 weeks ago"),
        ({"days": 30}, "1 month ago"),
        ({"days": 364}, "12 months ago"),
        ({"days": 365}, "1 year ago"),
        ({"days": 3_000}, "8 years ago"),
        ({"seconds": -30}, "just now"),
    ],
)
def test_a_time_ago_is_given_in_the_largest_unit_that_fits(before: dict[str, float], text: str) -> None:
    assert format_time_ago(NOW - timedelta(**before), now=NOW) == text
