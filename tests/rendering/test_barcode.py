import csv
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.rendering.codes.barcode import BarcodeError, encode_barcode, encode_barcode_lines, encode_barcodes

# From the postal service's published encoder test cases.
VECTORS = [
    ("12456321478955412336", "", "DAAAAFDDTTFFTATFADDTTFDDDADDFADDTTADFFFDDFDFAFFFDDTAFTFATFDTTTDFT"),
    ("22645874125632145236", "", "DTAFTTDFTDAATTDAFDTFTFFFDTFFFAATTFTTTAFDFDTFDFDFDDFADDAATATFADFAF"),
    ("94561236589741252214", "", "DATAAFTTTTATDTDFDDFTDATAFAATDFATDTDFAAFFFDAAAAAFADAFTTTFADTDFTAFA"),
    ("40120111574675115924", "62176", "AFDDADATAFDTDTTFAATDDTDFTDDDAFTFFTDTTATFAADFTFTFFADAAFAADFFDAADDT"),
    ("83145874125896325544", "65258", "AFDFAFAFFDTAFFADTAFTATFADDAFFDFFTTDDTTDTAFFDTTDTTATTFFTTDTDTAADTD"),
    ("94384893257548459459", "23876", "DTTADTTTAAATTTTTTFAATAFFTAFDTADDAFATTDFFFFDAFFDAATTADDTFAFFFFDDTF"),
    ("90456778976541564155", "859859409", "FDFTADFFFDTFDDDADTFDDFFDADDTTFAFAFAFAATTFAFTDTTDDAAADDFDDDATFTDFA"),
    ("92301284092858039032", "039549329", "ADAFDTDATTFFDFAADDTFTFADFTFDFFFFTDADDAAFADADDTDFTDAATATFTTFATFFTA"),
    ("23789473204739839788", "782934758", "TTDDAFFFDFDTDFATDFADDFAAFTDTFFADDFFFFDAAFTAFDFTDDFAFTDDTFFDFAADDD"),
    ("82205455868913559972", "54765515722", "TTTADTFFADAFDTTFDTAADATFFFADFFTDDFFFATDADAATAAADDATFTAADFADTADADD"),
    ("71456321478965412365", "58965123645", "DDFDDTTFDADTDFFDFDAAFDTTDDDTDTTFTAFTDDATFDAATAFFFDAAAFTDTFFDAFDFA"),
    ("42563214558978541236", "12364587456", "FTTTFATFTTATDFTATTFADTFATDAFTFDDTDAATDTATTATFDDFFFFTDFDTDFDFTDTDF"),
]

REFUSALS = [
    ("54765515722", "51135759461", 9),
    ("", "46589321479", 9),
    ("  987654321098765432", "012345678901", 9),
    ("4012X111574675115924", "62176609110", 10),
    ("4258963*45&123654785", "57280157428095740957438957498", 10),
    ("58412598741256321456", "45879654123", 11),
    ("53055494689272602879", "53055494689272602879", 12),
    ("44125632147896541236", "132589", 12),
    ("53055494689272602879", "137655B3689", 13),
]

DIGITS = "0123456789"
trackings = st.builds(
    "{}{}{}".format, st.sampled_from(DIGITS), st.sampled_from("01234"), st.text(DIGITS, min_size=18, max_size=18)
)
routings = st.sampled_from((0, 5, 9, 11)).flatmap(lambda n: st.text(DIGITS, min_size=n, max_size=n))


@pytest.mark.parametrize(("tracking", "routing", "bars"), VECTORS)
def test_digits_become_the_published_bars(tracking: str, routing: str, bars: str) -> None:
    assert encode_barcode(tracking, routing) == bars


@pytest.mark.parametrize(("tracking", "routing", "code"), REFUSALS)
def test_wrong_digits_are_refused_with_the_published_code(tracking: str, routing: str, code: int) -> None:
    with pytest.raises(BarcodeError) as refusal:
        encode_barcode(tracking, routing)
    assert refusal.value.code == code


def test_a_batch_of_digits_becomes_the_published_bars() -> None:
    batch = encode_barcodes([(tracking, routing) for tracking, routing, _ in VECTORS])
    assert [bars.decode() for bars in batch] == [bars for _, _, bars in VECTORS]
    assert encode_barcodes([]) == []


@settings(deadline=None)
@given(st.lists(st.tuples(trackings, routings), max_size=30))
def test_a_batch_gives_what_each_piece_gives_alone(codes: list[tuple[str, str]]) -> None:
    assert [bars.decode() for bars in encode_barcodes(codes)] == [encode_barcode(*code) for code in codes]


def test_the_lowest_and_the_highest_digits_are_the_same_in_a_batch() -> None:
    codes = [("0" * 20, ""), ("94" + "9" * 18, "9" * 11), ("00" + "9" * 18, "0" * 5), ("94" + "0" * 18, "0" * 9)]
    assert [bars.decode() for bars in encode_barcodes(codes)] == [encode_barcode(*code) for code in codes]


@pytest.mark.parametrize(("tracking", "routing", "code"), REFUSALS)
def test_one_wrong_piece_refuses_its_batch(tracking: str, routing: str, code: int) -> None:
    right = VECTORS[0][:2]
    with pytest.raises(BarcodeError) as refusal:
        encode_barcodes([right, (tracking, routing), right])
    assert refusal.value.code == code


def test_digits_of_other_scripts_are_not_digits() -> None:
    with pytest.raises(BarcodeError) as refusal:
        encode_barcode("٠" * 20, "")
    assert refusal.value.code == 10


def test_each_line_gives_one_line() -> None:
    tracking, routing, bars = VECTORS[-1]
    lines = [f"{tracking} {routing}\n", f"{tracking[:-1]}\n", "\n", f"{tracking} 1\n"]
    assert list(encode_barcode_lines(lines)) == [bars, "error 09", "error 09", "error 12"]


@pytest.mark.skipif("QUILLPOST_IMB_CASES" not in os.environ, reason="names no file of cases")
def test_every_published_case_matches() -> None:
    with Path(os.environ["QUILLPOST_IMB_CASES"]).open(newline="") as file:
        cases = [row for row in csv.reader(file) if row]
    assert len(cases) >= 10_000
    wrong = [case for case in cases if _outcome(case[1], case[2]) != (case[3], case[4])]
    assert wrong == []


@pytest.mark.skipif("QUILLPOST_IMB_CASES" not in os.environ, reason="names no file of cases")
def test_every_published_case_matches_in_a_batch() -> None:
    with Path(os.environ["QUILLPOST_IMB_CASES"]).open(newline="") as file:
        valid = [row for row in csv.reader(file) if row and row[4] == "00"]
    batch = encode_barcodes([(case[1], case[2]) for case in valid])
    assert len(batch) >= 8_000
    assert [bars.decode() for bars in batch] == [case[3] for case in valid]


def _outcome(tracking: str, routing: str) -> tuple[str, str]:
    try:
        return encode_barcode(tracking, routing), "00"
    except BarcodeError as refusal:
        return "", f"{refusal.code:02d}"
