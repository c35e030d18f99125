"""The family name that makes a household of those at one door."""

import pytest

from quillpost.recipients.addresses.text import extract_surname


@pytest.mark.parametrize(
    ("name", "surname"),
    [
        ("Jane Doe", "DOE"),
        ("JANE DOE", "DOE"),
        ("Dr. Jane Q. Doe Jr.", "DOE"),
        ("Jane Doe, PhD", "DOE"),
        ("Doe, Jane", "DOE"),
        ("Doe, Jane Q.", "DOE"),
        ("Doe, Jr., John", "DOE"),
        ("The Smith Family", "SMITH"),
        ("Smith Household", "SMITH"),
        ("John Smith and family", "SMITH"),
        ("John and Jane Smith", "SMITH"),
        ("Jane Doe or Current Resident", "DOE"),
        ('Jane "Jay" Doe (new)', "DOE"),
        ("Pat O'Brien", "OBRIEN"),
        ("Mary Smith-Jones", "SMITHJONES"),
        ("Vincent van Gogh", "VANGOGH"),
        ("de la Cruz, Maria", "DELACRUZ"),
        ("Van Morrison", "MORRISON"),
        ("José García", "GARCÍA"),
        ("Attn: Jane Doe", "DOE"),
        ("李 小龙", "李"),
        ("Smith", "SMITH"),
        ("Jane Doe c/o Bob Smith", "DOE"),
        ("Jane Doe, C/O Bob Smith", "DOE"),
        ("Jane Doe in care of Bob Smith", "DOE"),
        ("Doe, Jane c/o Bob Smith", "DOE"),
        ("Jane St. John", "STJOHN"),
        ("Jane St John", "STJOHN"),
        ("St. John, Jane", "STJOHN"),
    ],
)
def test_a_person_has_a_family(name: str, surname: str) -> None:
    assert extract_surname(name) == surname


@pytest.mark.parametrize(
    "name",
    [
        None, "", "  ", "Acme LLC", "Acme, Inc.", "The Smith Trust", "Current Resident", "Resident",
        "The Occupant", "Our Neighbor", "n/a", "Unknown", "jane@example.com", "12", "Dr.", "The",
        "Mr. & Mrs.",
    ],
)  # fmt: skip
def test_nobody_and_a_firm_have_none(name: str | None) -> None:
    assert extract_surname(name) is None
