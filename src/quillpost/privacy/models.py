"""Who is to be erased: everyone at a door, whoever has an e-mail, or both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.keys import AMBIGUOUS_KEY_SUFFIX
from quillpost.recipients.addresses.service import HOME_COUNTRY
from quillpost.recipients.rules import ADDRESS_FIELDS, EMAIL_PATTERN, Person, check_recipient

SubjectFields = Mapping[str, str | None]

SUBJECT_REQUIRED = "Give the person's address, or their email, or both."
POSTAL_CODE_REQUIRED = (
    "Give the ZIP code too (outside the US the postal code or the city): a street alone may be many people's."
)
AMBIGUOUS_ADDRESS = "Many people have this address: give a house number or a box, or the person's email instead."
ZIP_DIGITS = 5


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """Whoever matches one of the keys, or has the e-mail (in small letters)."""

    keys: tuple[str, ...]
    email: str | None

    def matches(self, person: Person) -> bool:
        """The same as the statements in `finding` ask of rows."""
        return person.address_key in self.keys or (
            self.email is not None and (person.email or "").lower() == self.email
        )


def parse_subject(fields: SubjectFields) -> ErasureSubject:
    """An address in parts, or whole on one line, and an e-mail: one of both at least."""
    address, email = ((fields.get(name) or "").strip() for name in ("address", "email"))
    errors: dict[str, list[str]] = {}
    if email and not EMAIL_PATTERN.fullmatch(email):
        errors["email"] = ["This is not an e-mail address."]
    keys: tuple[str, ...] = ()
    if address:
        person, address_errors = check_recipient(
            {name: fields.get(name) for name in ADDRESS_FIELDS}, allow_incomplete=True
        )
        errors |= address_errors
        if not address_errors and (person.address_key is None or person.address_key.endswith(AMBIGUOUS_KEY_SUFFIX)):
            has_location = person.postal_code is not None and person.country == HOME_COUNTRY
            errors |= {"address": [AMBIGUOUS_ADDRESS]} if has_location else {"postal_code": [POSTAL_CODE_REQUIRED]}
        keys = (person.address_key or "",)
    elif not email:
        errors["address"] = [SUBJECT_REQUIRED]
    if errors:
        raise Invalid(errors)
    return ErasureSubject(keys, email.lower() or None)


def encrypt_subject(encryptor: Encryptor, erasure_id: int, subject: ErasureSubject) -> bytes:
    """Whom a request is about, for the second pass: nobody who reads the database learns it."""
    plaintext = json.dumps({"keys": subject.keys, "email": subject.email}).encode()
    return encryptor.encrypt(plaintext, context=subject_encryption_context(erasure_id))


def decrypt_subject(encryptor: Encryptor, erasure_id: int, encrypted: bytes) -> ErasureSubject:
    values = json.loads(encryptor.decrypt(encrypted, context=subject_encryption_context(erasure_id)))
    return ErasureSubject(tuple(values["keys"]), values["email"])


def subject_encryption_context(erasure_id: int) -> str:
    return f"erasures:{erasure_id}"
