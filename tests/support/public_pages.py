"""The pages that nobody has to sign in for, each at an address that shows it."""

from urllib.parse import urlencode, urlsplit

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.users import invitations, passwords
from quillpost.core.database.tables.base import accounts, items
from support.sample_account import SampleAccount, made

SITE = "https://product.example.com"
CODE = "AB12CD34EF"


def list_public_pages(house: SampleAccount) -> dict[str, tuple[str, int]]:
    """By what pictures of it are called: the address, and the status that it answers with."""
    parts, now = house.container, house.container.clock()
    with parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(embed_origins=[SITE]))
        join = invitations.invite(
            tx, parts.encryptor, house.account.id, email="robin@example.com", role="member", sub_account_id=None,
            actor=Actor("dana@example.com", person_id=house.person_id), base_url="", now=now, send_email=False,
        )  # fmt: skip
        piece = tx.scalar(sa.select(items.c.code).where(items.c.id == house.ids["item_id"]))
        reset = passwords.create_reset_link(tx, house.person_id, base_url="", now=now)
    frame = str(made(house, "/embeds", {"origin": SITE, "piece": "postcard-4x6", "message": "Hello!"})["url"])
    return {
        "open-front": ("/", 200),
        "open-sign-in": ("/sign-in?next=/orders", 200),
        "open-forgot": ("/forgot", 200),
        "open-join": (join, 200),
        "open-join-old": ("/join/of-nobody", 404),
        "open-reset": (reset, 200),
        "open-reset-old": ("/reset/of-nobody", 404),
        "open-stop": ("/stop", 200),
        "open-stop-piece": (f"/stop/{piece}", 200),
        "open-stop-unknown": (f"/stop/{CODE}", 422),
        "open-gift": ("/gift", 200),
        "open-gift-unknown": (f"/gift/{CODE}", 404),
        "open-receiver": (f"/receiver/{parts.receiver_keys[0]}", 200),
        "open-missing": ("/nothing-is-here", 404),
        "open-no-client": ("/oauth/authorize?client_id=nobody", 400),
        "open-embed": (urlsplit(frame).path, 200),
    }


def consent_page(house: SampleAccount) -> str:
    """Where a connected app asks somebody for leave."""
    params = {
        "response_type": "code", "client_id": house.ids["client_id"], "state": "a state",
        "redirect_uri": "https://app.example.com/back",
    }  # fmt: skip
    return f"/oauth/authorize?{urlencode(params)}"
