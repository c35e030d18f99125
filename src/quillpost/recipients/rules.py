"""Validate and change recipients, with every error found at once."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from operator import itemgetter

from quillpost.core.errors import Invalid, Message
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.recipients.addresses.cities import (
    ZIP_PATTERN,
    find_state_code,
    format_zip,
    is_canadian,
    restore_zip,
    split_canadian_address,
)
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import (
    AMBIGUOUS_KEY_SUFFIX,
    CANADA,
    HOME_COUNTRY,
    UNDELIVERABLE,
    get_street,
    get_unit,
    standardize,
)
from quillpost.recipients.addresses.text import extract_surname
from quillpost.recipients.models import (
    ADDRESS_FIELDS,
    BY_EMAIL,
    CUSTOM_FIELDS,
    TEXT_FIELDS,
    PartialAddress,
    Person,
    RecipientErrors,
    RecipientFields,
)
from quillpost.recipients.webhooks.rules import InboundPerson
from quillpost.rendering.text.addresses import COUNTRY_CODES, country_code_by_name

MAX_FIELD_LENGTH = 300
SINGLE_LINE_FIELDS = frozenset({"name", "company", "city"})
HOME_COUNTRY_NAMES = {"US", "USA", "UNITED STATES", "UNITED STATES OF AMERICA"}
EMAIL_PATTERN = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
CITY_REQUIRED_ABROAD = Message("city_apart", "Outside the US and Canada give city and postal_code apart.")
CITY_REQUIRED_IN_CANADA = "An address needs a city, or write it whole on one line: 123 Main St, Toronto, ON M5V 2T6."
NO_PRICE = "There is no price for this piece to {}."
SAMPLE_ADDRESS = "This address is made up, a sample for testing mode: it is not mailed to."
SUPPRESSED = "This address is on a suppression list."
SAME_ADDRESS = "Another recipient of this order has the same address."
RECENTLY_MAILED = "The same piece went to this address less than 36 hours ago."


def validate_recipients(rows: Sequence[RecipientFields]) -> list[Person]:
    """Everyone in order, or `Invalid` with all errors, up to a limit. A suppression list may match the first at an
    address and not the next, so a duplicate is certain only where whatever suppresses an earlier one suppresses it
    too; others are decided later."""
    errors: RecipientErrors = {}
    people: list[Person] = []
    seen_by_key: dict[str, set[tuple[str | None, str | None]]] = {}
    for index, row in enumerate(rows):
        person = _build_person(row, f"recipients.{index}.", errors)
        if person.deliverability == UNDELIVERABLE:
            person = replace(person, refusal=person.reasons[0])
        if (key := person.address_key) is not None:
            seen_people = seen_by_key.setdefault(key, set())
            if any(
                (surname, email) in seen_people for surname in (None, person.surname) for email in (None, person.email)
            ):
                person = replace(person, refusal=SAME_ADDRESS)
            seen_people.add((person.surname, person.email))
        people.append(person)
        if len(errors) >= MAX_REPORTED_ERRORS:
            break
    if errors:
        raise Invalid(errors)
    return people


def validate_recipient(row: RecipientFields) -> Person:
    """Someone for a list, or `Invalid` with all errors by field."""
    person, errors = check_recipient(row, allow_incomplete=True)
    if errors:
        raise Invalid(errors)
    return person


def check_recipient(row: RecipientFields, *, allow_incomplete: bool = False) -> tuple[Person, RecipientErrors]:
    """Someone, and the errors. With `allow_incomplete` an address may lack what is not known yet; it is not mailed to
    until complete."""
    errors: RecipientErrors = {}
    return _build_person(row, "", errors, allow_incomplete=allow_incomplete), errors


def apply_changes(person: Person, changes: RecipientFields) -> Person:
    """The person with the named fields replaced; null clears one. A complete address on one line replaces every part
    of the old one that is not named beside it."""
    new_address = {part: (changes.get(part) or "").strip() or None for part in ADDRESS_FIELDS}
    has_separate_parts = any(new_address[part] for part in ("city", "province", "postal_code"))
    if (
        not has_separate_parts
        and _split_address_line(new_address, _parse_country(new_address["country"], "", {})) == CANADA
    ):
        new_address["country"] = CANADA
    is_full_address = not has_separate_parts and new_address["city"] is not None
    return validate_recipient({**person_to_fields(person), **changes, **(new_address if is_full_address else {})})


def person_to_fields(person: Person) -> dict[str, str | None]:
    return {
        **{name: getattr(person, name) for name in TEXT_FIELDS[:8]},
        "dob": person.dob and person.dob.isoformat(),
        "anniversary": person.anniversary and person.anniversary.isoformat(),
        "email": person.email,
        "phone": person.phone,
        **dict(zip(CUSTOM_FIELDS, person.custom, strict=True)),
    }


def parse_partial_address(row: RecipientFields) -> PartialAddress:
    fields: dict[str, str | None] = {name: (row.get(name) or "").strip() or None for name in TEXT_FIELDS}
    errors: RecipientErrors = {}
    country = _parse_country(fields["country"], "", errors)
    if errors:
        raise Invalid(errors)
    country = _split_address_line(fields, country)
    if country == HOME_COUNTRY:
        fields["province"] = find_state_code(fields["province"] or "") or fields["province"]
    known_parts = {name: fields[name] for name in ("city", "province")}
    known_parts["country"] = country if fields["country"] else None
    key = standardize(fields, country).key or "||"
    is_delivery_point = fields["postal_code"] is not None and not key.endswith(AMBIGUOUS_KEY_SUFFIX)
    if not is_delivery_point:
        known_parts["postal_code"] = fields["postal_code"]
    return PartialAddress(
        street=get_street(key),
        unit=get_unit(key),
        address_key=key if is_delivery_point else None,
        parts={name: text for name, text in known_parts.items() if text is not None},
    )


def _build_person(
    row: RecipientFields, prefix: str, errors: RecipientErrors, *, allow_incomplete: bool = False
) -> Person:
    """This runs for each of a million rows."""
    fields = _EMPTY_FIELDS.copy()
    for name, value in row.items():
        if value and name in fields and (text := value.strip()):
            if len(text) > MAX_FIELD_LENGTH:
                errors[f"{prefix}{name}"] = [f"At most {MAX_FIELD_LENGTH} characters, please."]
                text = text[:MAX_FIELD_LENGTH]  # patterns take long over long texts
            if name in SINGLE_LINE_FIELDS and not text.isprintable():
                text = " ".join(text.split())
            fields[name] = text
    country = HOME_COUNTRY if fields["country"] is None else _parse_country(fields["country"], prefix, errors)
    if not fields["city"] and not fields["postal_code"]:
        country = _split_address_line(fields, country)
    if fields["email"] and not EMAIL_PATTERN.fullmatch(fields["email"]):
        errors[f"{prefix}email"] = ["This is not an e-mail address."]
    if fields["address"] is None:
        if fields["email"] is None:
            errors[f"{prefix}address"] = ["Give an address, or at least an email."]
    elif country == HOME_COUNTRY:
        _check_domestic_address(fields, prefix, errors, allow_incomplete=allow_incomplete)
    elif fields["city"] is None and not allow_incomplete:
        errors[f"{prefix}city"] = [CITY_REQUIRED_IN_CANADA if country == CANADA else CITY_REQUIRED_ABROAD]
    standardized = standardize(fields, country, email=fields["email"], name=fields["name"])
    return Person(
        name=fields["name"],
        company=fields["company"],
        address=fields["address"],
        address2=fields["address2"],
        city=fields["city"],
        province=fields["province"],
        postal_code=fields["postal_code"],
        country=country,
        email=fields["email"],
        phone=fields["phone"],
        dob=_parse_date(dob, f"{prefix}dob", errors) if (dob := row.get("dob")) else None,
        anniversary=(
            _parse_date(anniversary, f"{prefix}anniversary", errors)
            if (anniversary := row.get("anniversary"))
            else None
        ),
        custom=_get_custom_values(fields),
        surname=extract_surname(fields["name"]),
        address_key=standardized.key,
        standard=standardized.standard,
        deliverability=standardized.deliverability,
        reasons=standardized.reasons,
    )


_EMPTY_FIELDS: dict[str, str | None] = dict.fromkeys(TEXT_FIELDS)
_get_custom_values = itemgetter(*CUSTOM_FIELDS)


def _parse_country(text: str | None, prefix: str, errors: RecipientErrors) -> str:
    if text is None or text.upper().replace(".", "") in HOME_COUNTRY_NAMES:
        return HOME_COUNTRY
    code = country_code_by_name(text).upper()
    if code not in COUNTRY_CODES:
        errors[f"{prefix}country"] = ["Use a two-letter country code such as US or CA."]
    return code


def _split_address_line(fields: dict[str, str | None], country: str) -> str:
    """Split an address on one line in place, unless parts are given beside it; the country, which the line may name."""
    if fields["address"] is None or fields["city"] or fields["postal_code"] or country not in (HOME_COUNTRY, CANADA):
        return country
    if country == HOME_COUNTRY and (parts := split_address_line(fields["address"])) is not None:
        fields |= parts
        return HOME_COUNTRY
    if (canadian_match := split_canadian_address(fields["address"])) is not None:
        parts, names_country = canadian_match
        if country == CANADA or (fields["country"] is None and names_country):
            fields |= parts
            return CANADA
    return country


def _is_unmarked_canadian(fields: RecipientFields) -> bool:
    """Whether an address without a country is certainly in Canada."""
    if fields["country"] is not None:
        return False
    is_canadian_line = fields["address"] and not fields["city"] and split_canadian_address(fields["address"])
    return bool(is_canadian_line) or is_canadian(fields["province"], fields["postal_code"])


def _check_domestic_address(
    fields: dict[str, str | None], prefix: str, errors: RecipientErrors, *, allow_incomplete: bool
) -> None:
    missing = {name for name in ("city", "province", "postal_code") if fields[name] is None}
    if (missing or find_state_code(fields["province"] or "") is None) and _is_unmarked_canadian(fields):
        errors[f"{prefix}country"] = ["This is an address in Canada: give country CA."]
        return
    for name, description in (("city", "a city"), ("province", "a state"), ("postal_code", "a ZIP code")):
        if fields[name] is None and not allow_incomplete:
            errors[f"{prefix}{name}"] = [
                f"An address needs {description}, or write it whole on one line: 12 Main St, Austin, TX 78701."
            ]
    if fields["province"]:
        code = find_state_code(fields["province"])
        if code is None:
            errors[f"{prefix}province"] = ["This is not a state of the US; use two letters."]
        fields["province"] = code or fields["province"]
    if fields["postal_code"]:
        code = fields["postal_code"]
        if ZIP_PATTERN.fullmatch(code) is None:
            code = restore_zip(code, fields["province"] or "", fields["city"] or "") or code
        if ZIP_PATTERN.fullmatch(code) is None:
            errors[f"{prefix}postal_code"] = ["A ZIP code has 5 digits, or 5-4."]
        else:
            fields["postal_code"] = format_zip(code)


def _parse_date(text: str, path: str, errors: RecipientErrors) -> date | None:
    if not text.strip():
        return None
    for date_format in ("%Y-%m-%d", "%m/%d/%Y"):
        try:
            return datetime.strptime(text.strip(), date_format).date()  # noqa: DTZ007
        except ValueError:
            continue
    errors[path] = ["Write the date as YYYY-MM-DD or MM/DD/YYYY; it must exist."]
    return None


def has_full_address(person: Person) -> bool:
    """Whether the address is one delivery point."""
    return person.address_key is not None and not person.address_key.endswith(AMBIGUOUS_KEY_SUFFIX)


def may_share_address(first: Person, second: Person) -> bool:
    """Whether they have the same street, and no known part of their addresses differs."""
    if first.address_key is None or second.address_key is None:
        return False
    if get_street(first.address_key) != get_street(second.address_key) or first.country != second.country:
        return False
    compared_fields = ("city", "province", "postal_code")
    pairs = [(getattr(first, part) or "", getattr(second, part) or "") for part in compared_fields]
    pairs.append((get_unit(first.address_key), get_unit(second.address_key)))
    return all(
        not first_value or not second_value or first_value.casefold() == second_value.casefold()
        for first_value, second_value in pairs
    )


def merge_person(existing: Person, inbound: InboundPerson, person: Person) -> tuple[Person, RecipientErrors]:
    """The existing person with the new fields. Less of an address than is known changes nothing of it, nor does one
    without a street, nor half a name."""
    new_fields = {name: text for name, text in person_to_fields(person).items() if text is not None}
    if not inbound.fields.get("country"):
        del new_fields["country"]
    if existing.name and inbound.has_partial_name:
        del new_fields["name"]
    if existing.address is None and person.address is not None:
        new_fields |= {part: getattr(person, part) for part in ADDRESS_FIELDS}
    elif existing.address is not None and (
        person.address is None or has_full_address(existing) > has_full_address(person)
    ):
        new_fields = {name: text for name, text in new_fields.items() if name not in ADDRESS_FIELDS}
    if existing.email and existing.email.lower() == str(new_fields.get("email")).lower():
        del new_fields["email"]  # the same in other capitals
    if existing.postal_code and existing.postal_code.startswith(f"{new_fields.get('postal_code')}-"):
        del new_fields["postal_code"]  # the four further digits of a ZIP+4 are known already
    return check_recipient({**person_to_fields(existing), **new_fields}, allow_incomplete=True)


INEFFECTIVE_ENTRY = (
    "On a suppression list an address needs its ZIP code (abroad its city) and a house number or a box: or"
    " give an email."
)

EMAIL_REQUIRED = "This suppression list bars by e-mail: give an email, or use a list that bars by address."


def find_suppression_error(suppress_by: str | None, person: Person) -> tuple[str, str] | None:
    """The field and the sentence for someone whom a list that suppresses so could not match; `suppress_by` is None for
    other lists."""
    if suppress_by is None:
        return None
    if suppress_by == BY_EMAIL:
        return ("email", EMAIL_REQUIRED) if person.email is None else None
    return None if person.can_be_suppressed else ("address", INEFFECTIVE_ENTRY)
