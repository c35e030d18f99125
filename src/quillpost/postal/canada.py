"""Addresses in Canada as they are told from others, and taken apart where they came whole on one line."""

import re

CANADA = "CA"
PROVINCES = {
    "ALBERTA": "AB", "BRITISH COLUMBIA": "BC", "MANITOBA": "MB", "NEW BRUNSWICK": "NB",
    "NEWFOUNDLAND AND LABRADOR": "NL", "NEWFOUNDLAND": "NL", "NOVA SCOTIA": "NS",
    "NORTHWEST TERRITORIES": "NT", "NUNAVUT": "NU", "ONTARIO": "ON", "PRINCE EDWARD ISLAND": "PE",
    "QUEBEC": "QC", "QUÉBEC": "QC", "SASKATCHEWAN": "SK", "YUKON": "YT",
}  # fmt: skip
_CODES = frozenset(PROVINCES.values())
_POSTAL_CODE = re.compile(r"[ABCEGHJ-NPRSTVXY]\d[A-Z][ -]?\d[A-Z]\d", re.IGNORECASE)
_WHOLE = re.compile(
    r"(?P<street>[^,]+(?:,[^,]+)?),\s*(?P<city>[^,\d]+),\s*(?P<province>[^,\d]+?),?\s+"
    rf"(?P<code>{_POSTAL_CODE.pattern})(?P<country>,?\s+Canada)?[.,]?",
    re.IGNORECASE,
)


def is_canadian(province: str | None, postal_code: str | None) -> bool:
    """Whether one of them is of Canada; no state of the US is called like a province."""
    return _province(province or "") is not None or _POSTAL_CODE.fullmatch(postal_code or "") is not None


def taken_apart_in_canada(line: str) -> tuple[dict[str, str], bool] | None:
    """Street, city, province and postal code, and whether the line names the country; None: it is no such."""
    whole = _WHOLE.fullmatch(", ".join(" ".join(part.split()) for part in line.strip().splitlines()))
    province = whole and _province(whole["province"])
    if whole is None or province is None:
        return None
    parts = {
        "address": whole["street"].strip(),
        "city": whole["city"].strip(),
        "province": province,
        "postal_code": whole["code"].upper(),
    }
    return parts, whole["country"] is not None


def _province(text: str) -> str | None:
    plain = text.replace(".", "").strip().upper()
    return plain if plain in _CODES else PROVINCES.get(plain)
