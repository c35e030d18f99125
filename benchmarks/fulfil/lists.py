"""Saved lists of any length, loaded by COPY: no two people share an address."""

from benchmarks.compose.recipients import recipient
from benchmarks.fulfil.office import Office

_LIST = """
    insert into mailing_lists (account_id, description, created_at, updated_at)
    values (%s, 'Everyone', now(), now()) returning id
"""
_COPY = """
    copy recipients (account_id, mailing_list_id, name, address, address2, city, province, postal_code,
                     country, email, custom1, address_key, created_at, updated_at) from stdin
"""


def load_list(office: Office, how_many: int, *, first: int = 0) -> int:
    """A list of so many people, from that one on."""
    list_id = int(office.one(_LIST, office.account))
    now = office.parts.clock()
    with office.admin.transaction(), office.admin.cursor() as cursor, cursor.copy(_COPY) as copy:
        for number in range(first, first + how_many):
            one = recipient(number)
            unit, zip_code = f"Unit {number}", one.postal_code[:5]
            key = f"{one.address.upper()}|UNIT {number}|{zip_code}|US"
            copy.write_row(
                (
                    office.account, list_id, one.name, one.address, unit, one.city, one.state,
                    one.postal_code, "US", f"p{number}@example.com", f"No. {number}", key, now, now,
                )
            )  # fmt: skip
    office.admin.execute("vacuum analyze recipients, mailing_lists")
    return list_id
