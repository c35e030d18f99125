"""Addresses in the lines of their countries."""

import pytest

from quillpost.recipients.addresses.rules import standardize_foreign
from quillpost.rendering.text.addresses import COUNTRY_CODES, format_address_lines, normalize_country_code
from quillpost.web.dashboard.orders import labels as order_labels
from quillpost.web.rendering import format_town


@pytest.mark.parametrize(
    ("country", "city", "province", "code", "lines"),
    [
        ("DE", "Berlin", "BE", "10115", ["10115 Berlin"]),
        ("Germany", "Berlin", None, "10115", ["10115 Berlin"]),
        ("ES", "Barcelona", "B", "08001", ["08001 Barcelona"]),
        ("ES", "Sitges", "B", "08870", ["08870 Sitges Barcelona"]),
        ("ES", "Sitges", "Cataluña", "08870", ["08870 Sitges Cataluña"]),
        ("GB", "London", "Middlesex", "NW1 6XE", ["London", "NW1 6XE"]),
        ("TR", "Kadikoy", "Istanbul", "34710", ["34710 Kadikoy/Istanbul"]),
        ("TR", "Kadikoy", None, "34710", ["34710 Kadikoy"]),
        ("MX", "Toluca", None, "50000", ["50000 Toluca"]),
        ("CH", "Bern", None, "3000", ["CH-3000 Bern"]),
        ("CH", "Bern", None, "CH-3000", ["CH-3000 Bern"]),
        ("FO", "Torshavn", None, "100", ["FO100 Torshavn"]),
        ("FO", "Torshavn", None, "FO 100", ["FO 100 Torshavn"]),
        ("SG", "Singapore", None, "049315", ["SINGAPORE 049315"]),
        ("SG", "Jurong", None, "049315", ["Jurong", "SINGAPORE 049315"]),
        ("AE", "Dubai", "Dubai", None, ["Dubai"]),
        ("HK", "Central", "Hong Kong Island", None, ["Central", "Hong Kong Island"]),
        ("KZ", "Almaty", "Almaty Region", "050000", ["Almaty", "Almaty Region", "050000"]),
        ("GH", "Accra", "Greater Accra", "GA-123", ["Accra Greater Accra GA-123"]),
        ("DE", None, "Bayern", "80331", ["80331 Bayern"]),
        ("US", "Austin", "TX", "78701", ["Austin TX 78701"]),
        (None, "Austin", "TX", "78701", ["Austin TX 78701"]),
        ("Atlantis", "Poseidonia", "P", "1", ["Poseidonia P 1"]),
        ("DE", " ", None, None, []),
    ],
)
def test_the_place_is_written_as_its_country_does(
    country: str | None, city: str | None, province: str | None, code: str | None, lines: list[str]
) -> None:
    assert format_address_lines(country, ["1 Street", "Unit 2"], city, province, code) == ["1 Street", "Unit 2", *lines]


def test_some_countries_have_the_city_above_the_street() -> None:
    assert format_address_lines("HU", ["Fo utca 1"], "Budapest", None, "1051") == ["Budapest", "Fo utca 1", "1051"]


@pytest.mark.parametrize("country", sorted(COUNTRY_CODES))
def test_nothing_is_lost_and_nothing_is_repeated(country: str) -> None:
    lines = format_address_lines(country, ["1 Street", "Unit 2"], "Cityville", "Provinceland", "12345")
    text = "\n".join(lines)
    for part in ("1 Street", "Unit 2", "Cityville", "12345"):
        assert text.count(part) == 1
    assert text.count("Provinceland") <= 1
    assert "%" not in text
    assert all(line == line.strip(" ,/-") for line in lines)


def test_a_province_stays_in_the_letters_in_which_it_was_given() -> None:
    assert standardize_foreign("JP", "Shibuya-ku", "Tokyo", "150-0001").province == "Tokyo"
    assert standardize_foreign("JP", "渋谷区", "東京都", "150-0001").province == "東京都"
    assert standardize_foreign("CA", "Toronto", "Ontario", "M5V 2T6").province == "ON"


def test_countries_are_known_by_code_and_by_name() -> None:
    assert [normalize_country_code(name) for name in (" de ", "Deutschland", "Canada", None, "Atlantis")] == [
        "DE",
        "DE",
        "CA",
        "US",
        "Atlantis",
    ]


def test_pages_name_a_place_on_one_line() -> None:
    assert format_town("Austin", "TX", "78701") == "Austin, TX 78701"
    assert format_town("Berlin", None, "10115", "DE") == "10115 Berlin, Germany"
    assert format_town("London", None, "NW1 6XE", "GB") == "London, NW1 6XE, United Kingdom"
    assert format_town(None, None, None) == ""


def test_pages_show_an_address_in_its_countrys_lines() -> None:
    assert order_labels.address_lines("Damrak 1", None, "Amsterdam", None, "1012 AB", "NL") == [
        "Damrak 1",
        "1012 AB Amsterdam",
        "Netherlands",
    ]
    assert order_labels.address_lines("1 Elm St", "Apt 2", "Austin", "TX", "78701") == [
        "1 Elm St",
        "Apt 2",
        "Austin, TX 78701",
    ]
