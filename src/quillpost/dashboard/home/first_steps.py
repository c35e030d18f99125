"""What somebody does first in a new account, and how much of it is done."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.accounts.account_facts import read_facts
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.database import Tx
from quillpost.parts import RECEIVER_DIGITS
from quillpost.people.sessions import SignedIn

SENT_LIVE = sa.text(
    "select exists (select from order_counts where account_id = :account and mode = 'live' and n > 0)"
)
# Asked only where nothing was ever sent live. Lists that we keep ourselves are nobody's first step, and the
# receiver that comes with the service is no other software.
DONE = sa.text(
    f"""
    select exists (select from mailing_lists
                    where account_id = :account and type <> 'qrscans'
                      and not is_suppression_list) as has_list,
           exists (select from order_counts
                    where account_id = :account and mode = 'test' and n > 0) as has_sent,
           exists (select from hourly_counts
                    where account_id = :account and mode = 'test' and what = 'delivered') as has_delivered,
           exists (select from webhooks
                    where account_id = :account
                      and url !~ '/receiver/[0-9a-f]{{{RECEIVER_DIGITS}}}/hook$') as has_webhook
    """
)


@dataclass(frozen=True, slots=True)
class FirstStep:
    """`href` is where it is done; None for a reader who may not."""

    title: str
    text: str
    href: str | None
    link: str
    is_done: bool


def first_steps(tx: Tx, who: SignedIn) -> Sequence[FirstStep]:
    """All of them, or none where there is nothing left to learn: all are done, or real mail went out. Takes a
    transaction that sees both modes."""
    account = {"account": who.here.account_id}
    if tx.execute(SENT_LIVE, account).scalar_one():
        return ()
    done = tx.execute(DONE, account).one()
    steps = [
        FirstStep(
            "Protect your sign-in",
            "A second factor on your phone keeps others out, even if they learn your password.",
            "/settings/second-factor",
            "Turn it on",
            who.has_second_factor,
        ),
        FirstStep(
            "Say where returned mail goes",
            "Every card carries a return address. "
            + ("" if who.is_owner else "An owner of the account sets it."),
            "/settings/account" if who.is_owner else None,
            "Set the address",
            has_return_address(tx, who),
        ),
        FirstStep(
            "Bring your people",
            "Import a spreadsheet, and every address is checked on the way in.",
            "/lists/import",
            "Import people",
            done.has_list,
        ),
        FirstStep(
            "Write a first card",
            "In testing mode nothing is mailed and nothing is billed: try whatever you like.",
            "/compose",
            "Write a card",
            done.has_sent,
        ),
        FirstStep(
            "Watch it arrive",
            "A test card travels to its door in about half a minute. Its page shows every step.",
            "/orders",
            "See your orders",
            done.has_delivered,
        ),
        FirstStep(
            "Tell your other software",
            "A webhook lets another program know when a card is delivered or its code is scanned.",
            "/webhooks/new",
            "Add a webhook",
            done.has_webhook,
        ),
    ]
    if not who.here.is_test_account:
        steps.append(
            FirstStep(
                "Send real mail",
                "Switch to Live at the top when you are ready. You see the price before you send.",
                "/compose",
                "Write a card",
                is_done=False,
            )
        )
    return () if all(step.is_done for step in steps) else steps


def has_return_address(tx: Tx, who: SignedIn) -> bool:
    """Of the reader's sub account, or else of the account."""
    branch = read_sub_account(tx, who.here.sub_account_id)
    if branch is not None and branch.return_address:
        return True
    return read_facts(tx, who.here.account_id).has_return_address
