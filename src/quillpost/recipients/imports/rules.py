"""Which column of a file holds what, and the recipient in each row."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quillpost.core.errors import Invalid
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.recipients.addresses.cities import ZIP_PATTERN, find_state_code
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.field_names import (
    choose_address,
    combine_street,
    find_field_meaning,
    normalize_date,
    normalize_name,
)
from quillpost.recipients.imports.models import (
    IGNORED_FIELD,
    IMPORT_FIELDS,
    INTERNAL_FIELD_NAMES,
    FileLayout,
    MappedColumn,
    RowPlan,
)
from quillpost.recipients.models import Person, get_distinguishing_key
from quillpost.recipients.rules import EMAIL_PATTERN, check_recipient, find_suppression_error
from quillpost.rendering.text.addresses import country_code_by_name

MAX_COLUMN_NAME_LENGTH = 100
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def clean_column_name(name: str) -> str:
    return _CONTROL_CHARACTER.sub("\ufffd", " ".join(name.split()))[:MAX_COLUMN_NAME_LENGTH]


def build_column_names(header: list[str] | None, width: int) -> tuple[str, ...]:
    header_names = header or []
    return tuple(
        (clean_column_name(header_names[index]) if index < len(header_names) else "") or f"Column {index + 1}"
        for index in range(width)
    )


MAX_NAMES_LISTED = 30
MAX_SAMPLE_LENGTH = 100
_PUBLIC_FIELD_NAMES = {within: field for field, within in INTERNAL_FIELD_NAMES.items()}
_MAILABLE_FIELDS = frozenset({"address", "full_address", "street_name"})
_IDENTIFYING_FIELDS = _MAILABLE_FIELDS | {"email"}
_HOUSE_AND_STREET = re.compile(r"\d+\S*\s+\S.*|P\.?\s*O\.?\s+Box\s.*", re.IGNORECASE)
_SEVERAL_WORDS = re.compile(r"[^\W\d_]+[.,'’-]?(?:[\s-]+[^\W\d_]+[.,'’]?)+")
_PHONE = re.compile(r"\+?[\d\s().-]{10,20}")


def choose_columns(
    layout: FileLayout, rows: Sequence[Sequence[str]], mapping: Mapping[str, Any] | None
) -> list[MappedColumn]:
    """The field of each column: from the mapping, else guessed."""
    mapped_fields = _read_mapping(layout, mapping or {})
    guessed_fields = _guess_fields(layout, rows)
    used_fields = set(mapped_fields.values()) - {IGNORED_FIELD}
    fields = [
        mapped_fields.get(index, IGNORED_FIELD if guessed_field in used_fields else guessed_field)
        for index, guessed_field in enumerate(guessed_fields)
    ]
    return [
        MappedColumn(name, _find_sample(rows, index), fields[index], mapped_fields.get(index) == IGNORED_FIELD)
        for index, name in enumerate(layout.names)
    ]


def build_warnings(columns: Sequence[MappedColumn]) -> list[str]:
    """Which columns are ignored though they are not empty."""
    indexes_by_name: dict[str, list[int]] = {}
    for index, column in enumerate(columns):
        indexes_by_name.setdefault(column.name, []).append(index)
    warnings, overlooked_names = [], []
    for name, same_name_indexes in indexes_by_name.items():
        ignored_indexes = [index for index in same_name_indexes if columns[index].is_overlooked]
        count = _COUNT_LABELS.get(len(same_name_indexes), str(len(same_name_indexes)))
        if len(same_name_indexes) > 1 and len(ignored_indexes) == 1:
            number = ignored_indexes[0]
            ordinal = _ORDINAL_LABELS.get(same_name_indexes.index(number), "another")
            warnings.append(
                f"{count} columns are called {name}: {ordinal} is left out; map it by its number, {number}."
            )
        elif len(same_name_indexes) > 1 and ignored_indexes:
            numbers = " and ".join(map(str, ignored_indexes[:MAX_NAMES_LISTED]))
            warnings.append(
                f"{count} columns are called {name}: {len(ignored_indexes)} of them are left out; map them by their "
                f"numbers, {numbers}."
            )
        elif ignored_indexes:
            overlooked_names.append(name)
    if overlooked_names:
        is_single = len(overlooked_names) == 1
        warnings.append(
            f"{'1 column is' if is_single else f'{len(overlooked_names):,} columns are'} left out: "
            f"{join_names(overlooked_names)}."
            f" Map {'it' if is_single else 'them'} if you need {'it' if is_single else 'them'}."
        )
    return warnings


_COUNT_LABELS = {2: "Two", 3: "Three"}
_ORDINAL_LABELS = {0: "the first", 1: "the second", 2: "the third"}


def has_street_column(columns: Sequence[MappedColumn]) -> bool:
    return not _MAILABLE_FIELDS.isdisjoint(column.field for column in columns)


def require_address_or_email(columns: Sequence[MappedColumn]) -> None:
    if not _IDENTIFYING_FIELDS & {column.field for column in columns}:
        raise Invalid(
            {
                "mapping": [
                    "No column seems to hold an address or an e-mail: map one to address or email."
                    f" The columns are {join_names(column.name for column in columns)}."
                ]
            }
        )


def join_names(names: Any) -> str:
    """Names in a sentence, at most `MAX_NAMES_LISTED` of them."""
    all_names = list(names)
    listed = ", ".join(all_names[:MAX_NAMES_LISTED])
    return listed if len(all_names) <= MAX_NAMES_LISTED else f"{listed} and {len(all_names) - MAX_NAMES_LISTED:,} more"


def _read_mapping(layout: FileLayout, mapping: Mapping[str, Any]) -> dict[int, str]:
    """The field that the sender says, by the index of the column."""
    mapped_fields: dict[int, str] = {}
    errors: dict[str, list[str]] = {}
    for column, field in mapping.items():
        path = f"mapping.{clean_column_name(column)}"
        field = IGNORED_FIELD if field is None else field
        column_index = _find_column(layout, column)
        if isinstance(column_index, str):
            errors[path] = [column_index]
        elif not isinstance(field, str) or field not in (*IMPORT_FIELDS, IGNORED_FIELD):
            errors[path] = [f"A column can hold {', '.join(IMPORT_FIELDS)}; leave it out with an empty text."]
        elif column_index in mapped_fields:
            errors[path] = [f"This column is mapped already, by its {'name' if column.isdigit() else 'number'}."]
        elif field and field in mapped_fields.values():
            errors[path] = [f"Another column is mapped to {field} already."]
        else:
            mapped_fields[column_index] = field
        if len(errors) >= MAX_REPORTED_ERRORS:
            break
    if errors:
        raise Invalid(errors)
    return mapped_fields


def _find_column(layout: FileLayout, column: str) -> int | str:
    """The index of the column with this name or number; or an error."""
    indexes = [index for index, name in enumerate(layout.names) if name == clean_column_name(column)]
    if len(indexes) == 1:
        return indexes[0]
    if indexes:
        numbers = " and ".join(map(str, indexes))
        return f"Several columns have this name: say which by its number, here {numbers}."
    if column.isascii() and column.isdigit() and len(column) < 6 and int(column) < layout.width:
        return int(column)
    return f"There is no such column. The columns are {join_names(layout.names)}."


def _guess_fields(layout: FileLayout, rows: Sequence[Sequence[str]]) -> list[str]:
    meanings = [find_field_meaning(normalize_name(name)) if layout.has_header else None for name in layout.names]
    address_index = choose_address(filter(None, meanings))
    best: dict[str, tuple[int, int]] = {}
    for index, field_meaning in enumerate(meanings):
        if (
            field_meaning is None
            or field_meaning.address_index not in (None, address_index)
            or field_meaning.name_address_index not in (None, address_index)
        ):
            continue
        if field_meaning.field not in best or field_meaning.rank < best[field_meaning.field][0]:
            best[field_meaning.field] = field_meaning.rank, index
    fields = [IGNORED_FIELD] * layout.width
    for field, (_, index) in best.items():
        fields[index] = _PUBLIC_FIELD_NAMES.get(field, field)
    unknown = [index for index, field_meaning in enumerate(meanings) if field_meaning is None]
    _guess_from_cells(fields, unknown, rows, has_header=layout.has_header)
    return fields


CellTest = Callable[[str], object]
_CERTAIN_CELL_TESTS: tuple[tuple[str, CellTest, float], ...] = (
    ("email", EMAIL_PATTERN.fullmatch, 0.8),
    ("address", split_address_line, 0.6),
)
_CELL_TESTS: tuple[tuple[str, CellTest, float], ...] = (
    ("postal_code", ZIP_PATTERN.fullmatch, 0.9),
    ("province", find_state_code, 0.9),
    ("address", _HOUSE_AND_STREET.fullmatch, 0.6),
    ("phone", _PHONE.fullmatch, 0.8),
)
"""What the cells of a field look like, and which share of them must."""


def _guess_from_cells(
    fields: list[str], unknown: Sequence[int], rows: Sequence[Sequence[str]], *, has_header: bool
) -> None:
    """Guess fields from cells. Where columns have names, only what cannot be anything else."""

    def assign_field(field: str, cell_test: CellTest, min_share: float) -> None:
        is_assigned = field in fields or (field == "address" and {"full_address", "street_name"} & {*fields})
        if is_assigned:
            return
        for index in unknown:
            if fields[index] == IGNORED_FIELD and _matching_share(rows, index, cell_test) >= min_share:
                fields[index] = field
                return

    for field, cell_test, min_share in _CERTAIN_CELL_TESTS:
        assign_field(field, cell_test, min_share)
    if has_header:
        return
    for field, cell_test, min_share in _CELL_TESTS:
        assign_field(field, cell_test, min_share)
    previous_index = fields.index("province") - 1 if "province" in fields else -1
    if previous_index >= 0 and fields[previous_index] == IGNORED_FIELD:
        fields[previous_index] = "city"
    assign_field("name", _SEVERAL_WORDS.fullmatch, 0.6)


def _matching_share(rows: Sequence[Sequence[str]], index: int, cell_test: CellTest) -> float:
    cells = [cell for row in rows if index < len(row) and (cell := row[index].strip())]
    return sum(bool(cell_test(cell[:300])) for cell in cells) / len(cells) if cells else 0.0


def _find_sample(rows: Sequence[Sequence[str]], index: int) -> str:
    cells = (" ".join(row[index].split()) for row in rows if index < len(row))
    return next((cell[:MAX_SAMPLE_LENGTH] for cell in cells if cell), "").replace("\x00", "\ufffd")


BROKEN_CHARACTER = "{} holds a broken character: save the file as UTF-8 and import this row again."
NUL_CHARACTER = "{} holds a NUL character, which cannot be printed or stored."
TOO_WIDE = (
    "The row has {} cells, and there are {} columns: a cell that holds the sign between them needs quotes around it."
)
ESCAPED_FORMULA = re.compile("'+[-=+@\t\r\n＝＋－＠]")
"""How an export begins a value that a spreadsheet would take for a formula."""
_UNSTORABLE = re.compile(r"[\ufffd\x00]")


class RowReader:
    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self._fields = plan.internal_fields
        self._width = plan.width
        names = {field for _, field in self._fields}
        self._has_dates = bool(names & {"dob", "anniversary"})
        self._is_plain = not names & {"first_name", "last_name", "country", *INTERNAL_FIELD_NAMES.values()}

    def read_person(self, cells: Sequence[str]) -> Person | str:
        """Someone for a list; or why not, in one sentence."""
        fields = self.read_fields(cells)
        if isinstance(fields, str):
            return fields
        person, errors = check_recipient(fields, allow_incomplete=True)
        for field, sentences in errors.items():
            return f"{field}: {sentences[0]}"
        if (error := find_suppression_error(self._plan.suppress_by, person)) is not None:
            return ": ".join(error)
        return person

    def read_fields(self, cells: Sequence[str]) -> dict[str, str] | str:
        """The fields by our names, not validated yet; or why the row cannot be read."""
        count = len(cells)
        if count > self._width and any(map(str.strip, cells[self._width :])):
            return TOO_WIDE.format(count, self._width)
        fields: dict[str, str] = {}
        for index, field in self._fields:
            if index < count and (text := cells[index].strip()):
                if text[0] == "'" and ESCAPED_FORMULA.match(text):
                    text = text[1:]
                if (not text.isascii() or "\x00" in text) and (match := _UNSTORABLE.search(text)) is not None:
                    return (NUL_CHARACTER if match[0] == "\x00" else BROKEN_CHARACTER).format(
                        _PUBLIC_FIELD_NAMES.get(field, field)
                    )
                fields[field] = text
        self._complete_fields(fields)
        return fields

    def get_distinguishing_key(self, person: Person) -> str:
        return get_distinguishing_key(self._plan.suppress_by or "", person)

    def _complete_fields(self, fields: dict[str, str]) -> None:
        """By our names only, as in webhooks."""
        if not self._is_plain:
            first, last = fields.pop("first_name", None), fields.pop("last_name", None)
            if first and last:
                fields["name"] = f"{first} {last}"
            elif (first or last) and "name" not in fields:
                fields["name"] = first or last or ""
            if "country" in fields:
                fields["country"] = country_code_by_name(fields["country"])
        if not self._is_plain or "\n" in fields.get("address", "") or "  " in fields.get("address", ""):
            combine_street(fields)
        if self._has_dates:
            for name in ("dob", "anniversary"):
                if name in fields and (parsed_date := normalize_date(fields[name])) is not None:
                    fields[name] = parsed_date


NULL = "\\N"
_NULL_PLACEHOLDER = "\x1f"
_QUOTED_NULL_PLACEHOLDER = f'"{_NULL_PLACEHOLDER}"'
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ARRAY_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def examine_rows(
    reader: RowReader,
    import_id: int,
    first_row: int,
    lines: Sequence[int],
    rows: Sequence[Sequence[str]],
    errors: dict[int, str],
) -> tuple[list[str], list[str]]:
    """Lines for the staging table, and for the table of rejected rows."""
    people, rejects = [], []
    for index, cells in enumerate(rows):
        row_number, line = first_row + index, lines[index]
        person_or_reason = errors[index] if index in errors else reader.read_person(cells)
        if isinstance(person_or_reason, str):
            rejects.append(f"{import_id}\t{row_number}\t{line}\t{escape_copy_value(person_or_reason)}\n")
        else:
            people.append(
                _format_copy_line(row_number, line, person_or_reason, reader.get_distinguishing_key(person_or_reason))
            )
    return people, rejects


def _format_copy_line(row_number: int, line: int, person: Person, distinguishing_key: str) -> str:
    """In the order of the staging table's columns."""
    values = (
        str(row_number), str(line),
        person.name, person.company, person.address, person.address2, person.city, person.province,
        person.postal_code, person.country, person.email, person.phone,
        str(person.dob) if person.dob else None, str(person.anniversary) if person.anniversary else None,
        *person.custom, person.surname, person.address_key, format_array(person.standard),
        person.deliverability, format_array(person.reasons), distinguishing_key,
    )  # fmt: skip
    # Nearly every line is plain: one look at the whole tells, and one pass writes what is null.
    line_text = "\t".join([_NULL_PLACEHOLDER if value is None else value for value in values])
    is_plain = line_text.count("\t") == len(values) - 1 and line_text.count(_NULL_PLACEHOLDER) == values.count(None)
    if is_plain and not ("\\" in line_text or "\n" in line_text or "\r" in line_text):
        return line_text.replace(_NULL_PLACEHOLDER, NULL) + "\n"
    return "\t".join(map(escape_copy_value, values)) + "\n"


def escape_copy_value(text: str | None) -> str:
    """As COPY takes a value."""
    return NULL if text is None else text.translate(_COPY_ESCAPES)


def format_array(texts: Sequence[str | None] | None) -> str | None:
    """The literal of an array."""
    if texts is None:
        return None
    if not texts:
        return "{}"
    inner = '","'.join([_NULL_PLACEHOLDER if text is None else text for text in texts])
    if "\\" not in inner and inner.count('"') == 2 * len(texts) - 2:
        return f'{{"{inner}"}}'.replace(_QUOTED_NULL_PLACEHOLDER, "NULL")
    quoted = ["NULL" if text is None else f'"{text.translate(_ARRAY_ESCAPES)}"' for text in texts]
    return f"{{{','.join(quoted)}}}"
