"""What others call the fields of a person: the names that CRMs, shops and automation tools send.

Names are compared without case, spaces and punctuation, and a field inside another is known by both names in
a row: `address.city`, `address[city]`, `Address City` and `address_city` are one name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

LONGEST_NAME = 100

PERSON = {
    "name": "fullname name displayname namefull nameformatted",
    "first_name": "firstname fname givenname forename namefirst namegivenname namegiven",
    "last_name": "lastname lname surname familyname namelast namefamilyname namefamily",
    "company": "company companyname organization organizationname organisation organisationname orgname org"
    " orgidname accountname accountnamename businessname business employer customeracctname",
    "email": "email emailaddress primaryemail email1 emailemail emailaddressemail personalemail homeemail"
    " workemail",
    "phone": "phone phonenumber mobilephone mobile mobilenumber mobilephonenumber cellphone cell telephone"
    " tel primaryphone phone1 homephone workphone phonephone phonenumbernumber",
    "dob": "dob dateofbirth birthday birthdate",
    "anniversary": "anniversary anniversarydate weddinganniversary",
}
"""By our field, or one that makes part of it, what others call it: the name that counts most first."""

PLACE = {
    "address": "address1 addressline1 line1 addr1 street1 streetaddress1 streetline1 streetaddress street"
    " address addr addressline",
    "address2": "address2 addressline2 line2 addr2 street2 streetaddress2 streetline2 unit unitnumber apt"
    " apartment aptnumber suite aptsuite aptsuiteunit subpremise",
    "city": "city town locality citytown municipality",
    "province": "statecode provincecode regioncode hsstatecode province state region stateprovince"
    " stateregion adminarealevel1 administrativearea stateabbreviation st",
    "postal_code": "postalcode zip zipcode postcode zippostalcode zippostcode zippostal postalzip",
    "country": "countrycode countryisocode countryiso country countryregion countryname",
    "whole": "fulladdress formattedaddress completeaddress full formatted",
    "route": "route",
    "number": "streetnumber housenumber",
}
"""The same for the parts of an address, each perhaps behind the name of the address itself."""

ADDRESSES = (
    ("", "address"),
    ("mailing", "mailingaddress"),
    ("postaladdress",),
    ("home", "homeaddress"),
    ("primary", "primaryaddress"),
    ("default", "defaultaddress"),
    ("shipping", "shippingaddress"),
    ("billing", "billingaddress"),
)
"""The addresses of a person, the one to mail to first. Parts of two are never mixed."""

OWNERS = ("contact", "person", "recipient", "customer", "subscriber", "billing", "shipping")
"""Words before a name that say whose it is: `contact_email`."""

INSIDE = frozenset(
    {
        "contact", "person", "recipient", "customer", "subscriber", "lead", "member", "record", "profile",
        "properties", "attributes", "fields", "mergefields", "merges", "customfields", "customdata",
        "customfieldvalues", "fieldvalues", "data", "current", "payload", "body", "object",
    }
)  # fmt: skip
"""Objects whose fields are the person's own. Others, such as an owner or a location, are not looked into."""

FIRST_OF_ALL = "customdata"
"""What someone set by hand for this very call counts before what the tool sends anyway."""

ONE_OF = {
    "emails": "email",
    "emailaddresses": "email",
    "email": "email",
    "phones": "phone",
    "phonenumbers": "phone",
    "phone": "phone",
    "addresses": "address",
    "address": "address",
}
"""Arrays of which one is taken: the primary one, else the first."""

MANY = frozenset(
    {
        "recipients", "contacts", "people", "persons", "records", "members", "customers", "leads",
        "subscribers", "data", "rows",
    }
)  # fmt: skip
"""Arrays that hold people."""

CUSTOM = re.compile(r"custom(?:field|value|text)?0?([1-9]|10)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name stands for; of several names of one thing the lowest rank counts."""

    field: str
    rank: int
    address: int | None = None
    """Which of the addresses it is a part of."""
    at: int | None = None
    """At which of the addresses someone has this name: an order may be for somebody else than who pays."""


def plain(name: str) -> str:
    """Letters and digits alone, in lower case. A suffix that marks a CRM's custom fields says nothing."""
    return _plain(name.strip()[: LONGEST_NAME + 1])


@lru_cache(4_096)  # the rows of a body have the same names
def _plain(name: str) -> str:
    return "".join(letter for letter in name.removesuffix("__c").casefold() if letter.isalnum())


def meaning(name: str) -> Meaning | None:
    """What a plain name stands for, if we know it."""
    if len(name) > LONGEST_NAME:
        return None
    if (known := _KNOWN.get(name)) is not None:
        return known
    if custom := CUSTOM.fullmatch(name):
        return Meaning(f"custom{custom[1]}", 0)
    if (there := _KNOWN_THERE.get(name)) is not None:
        return there
    owner = next((each for each in OWNERS if name.startswith(each)), None)
    if owner is None or (own := _KNOWN.get(name.removeprefix(owner))) is None:
        return None
    return Meaning(own.field, own.rank + _LESS, own.address)


_LESS = 100
"""Names behind an owner count after all the others."""


def _person_names() -> Iterator[tuple[str, Meaning]]:
    for field, names in PERSON.items():
        yield from ((name, Meaning(field, rank)) for rank, name in enumerate(names.split()))


def _place_names() -> Iterator[tuple[str, Meaning]]:
    for which, prefixes in enumerate(ADDRESSES):
        for prefix in prefixes:
            for part, names in PLACE.items():
                for rank, name in enumerate(names.split()):
                    yield prefix + name, Meaning(part, rank, which)
            if prefix.endswith("address"):
                # Inside an address a code can be but one; and an address that has parts is whole by itself.
                yield prefix + "code", Meaning("postal_code", _LESS - 1, which)
                yield prefix + "value", Meaning("whole", _LESS - 1, which)
                yield prefix, Meaning("whole", _LESS - 2, which)


def _known() -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    for name, what in (*_person_names(), *_place_names()):
        found.setdefault(name, what)  # an earlier entry of the tables is the likelier
    # These alone, without the word address before them, are too little to tell an address by.
    for vague in ("full", "formatted"):
        del found[vague]
    return found


NAMES = ("name", "first_name", "last_name", "company")


def _known_there() -> dict[str, Meaning]:
    """Names behind that of an address: `shipping_address.first_name`."""
    return {
        prefix + name: Meaning(field, rank + _LESS, at=which)
        for which, prefixes in enumerate(ADDRESSES)
        for prefix in prefixes
        if which
        for field in NAMES
        for rank, name in enumerate(PERSON[field].split())
    }


_KNOWN = _known()
_KNOWN_THERE = _known_there()
