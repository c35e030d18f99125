"""A message as mail servers and mail programs read it."""

from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr

import idna

from quillpost.adapters.notify.identity import identity
from quillpost.ports.messages import Message

# At this width no encoded word is longer than the 75 letters that it may have.
POLICY = SMTP.clone(max_line_length=76)
MOST_LOCAL, MOST_WHOLE = 64, 254
NOT_IN_ADDRESSES = frozenset('<>()[],;:\\" \t')


def spelled(address: str) -> str:
    """The address as it goes over the wire, its domain in ASCII; `ValueError` when it is none."""
    local, at, domain = address.rpartition("@")
    if not (at and 0 < len(local) <= MOST_LOCAL) or not address.isprintable():
        raise ValueError("This is not an e-mail address.")
    if "@" in local or NOT_IN_ADDRESSES & set(address):
        raise ValueError("This is not an e-mail address.")
    whole = f"{local}@{idna.encode(domain, uts46=True).decode('ascii')}"
    if len(whole) > MOST_WHOLE:
        raise ValueError("This e-mail address is too long.")
    return whole


def mail_of(message: Message, *, sender_name: str, sender: str) -> bytes:
    """The whole mail, from an address that is `spelled`; `ValueError` where the one that it is for is none,
    or somebody has put a line end into a header."""
    to = spelled(message.to)
    whole = {"To": to, "Message-ID": f"<{identity(message.key)}@{sender.rpartition('@')[2]}>"}
    if message.unsubscribe is not None:
        whole["List-Unsubscribe"] = f"<{message.unsubscribe}>"
    mail = EmailMessage(POLICY)
    mail["From"] = formataddr((sender_name, sender))
    mail["Subject"] = message.subject
    mail["Date"] = format_datetime(message.at)
    mail["Auto-Submitted"] = "auto-generated"
    if message.unsubscribe is not None:
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    mail.set_content(message.text, cte="quoted-printable")
    mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
    return _unbroken(whole) + bytes(mail)


def _unbroken(headers: Mapping[str, str]) -> bytes:
    """Headers of one word each, which must not be broken over lines or encoded: a mail program would not find
    the link in it."""
    if not all(value.isprintable() and " " not in value for value in headers.values()):
        raise ValueError("This does not fit into a header.")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
