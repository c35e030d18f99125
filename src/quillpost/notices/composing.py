"""From a notice to the message that is sent: who it is from, why they get it, how to hear no more of it."""

from collections.abc import Callable
from datetime import datetime

from quillpost.kit.text import one_line
from quillpost.notices import markup, rules
from quillpost.notices.letters import as_text_message
from quillpost.notices.outbox import Claimed
from quillpost.notices.refusals import Reader
from quillpost.ports.messages import Message

LONGEST_SUBJECT = 150
TEST = "This is about testing mode: nothing was printed or mailed."
PLACE = "{link}"

LinkTo = Callable[[Reader], str]
"""Where a reader says that they want to hear no more."""


def compose(notice: Claimed, *, link_to: LinkTo, secret: str | None = None, now: datetime) -> Message:
    """`secret` is what `{link}` in the words stands for, where the notice has one."""
    words = notice.words if secret is None else notice.words.replace(PLACE, secret)
    is_test = notice.mode == "test"
    if notice.channel == "text":
        words = f"Test: {words}" if is_test else words
        number = notice.address.removesuffix(rules.TEXT_SUFFIX)
        return Message(notice.key, number, notice.subject, as_text_message(words), now)
    title = one_line(notice.subject, most=LONGEST_SUBJECT)
    link = link_to(Reader(notice.account_id, notice.address)) if notice.kind == rules.SCANS else None
    footer = [TEST] if is_test else []
    footer.append(_reason(notice))
    ends = footer if link is None else [*footer, f"To hear no more of them: {link}"]
    return Message(
        key=notice.key,
        to=notice.address,
        subject=f"[Test] {title}" if is_test else title,
        text=f"{words.strip()}\n\n-- \n" + "\n".join(ends) + "\n",
        at=now,
        html=markup.page(title, words, footer, unsubscribe=link),
        unsubscribe=link,
    )


def _reason(notice: Claimed) -> str:
    name = one_line(notice.account_name, most=LONGEST_SUBJECT)
    if notice.kind == rules.SCANS:
        return f"You get this because {name} has named your address to be told of scans."
    if notice.kind == rules.PEOPLE:
        return "You get this because you sign in to Quillpost with this address, or are invited to."
    if notice.kind == rules.GIFTS:
        return f"You get this because you look after the account {name}, or are told of its orders."
    return f"You get this because your address is that of the account {name}."
