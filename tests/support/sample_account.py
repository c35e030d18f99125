"""An account in which everything has happened, and the addresses of public pages: what a walk over pages visits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth import clients
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import invitations, passwords
from quillpost.accounts.users.sessions import create_session
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.accounts import invitations as invitation_table
from quillpost.core.database.tables.accounts import memberships, oauth_grants, sessions
from quillpost.core.database.tables.base import accounts, items, prices
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.database.tables.notifications import deliveries
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.rules import TICKET_JSON
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_operator, person, run_due_jobs, run_jobs_for
from support.images import ImageServer
from support.orders import HOME, UNFILLED
from support.own_handwriting import make_style, sign
from support.sign_in import make_user
from support.test_client import TestClient

TOWNS = (
    ("Austin", "TX", "78701"), ("Chicago", "IL", "60601"), ("New York", "NY", "10001"), ("Miami", "FL", "33101"),
    ("Seattle", "WA", "98101"), ("Denver", "CO", "80202"), ("Atlanta", "GA", "30303"),
)  # fmt: skip
NAMES = ("Mara Ellison", "Theo Banks", "Ines Duarte", "Noor Haddad", "Sam Okafor", "June Park", "Leo Brandt")
ENDINGS = ("Test Returned", "Test Undeliverable", "Test Lost")
ADDRESS = {
    "return_name": "Dana Whitfield", "return_address": "1 Elm St", "return_city": "Austin",
    "return_state": "TX", "return_postal_code": "78702",
}  # fmt: skip
PEOPLE_FILE = "Name,Street,City,State,Zip\nAda Reed,1 Oak St,Austin,TX,78701\nBo Lind,,Austin,TX,\n"


@dataclass
class SampleAccount:
    """Where everything is. `ids` are what paths of pages name, by the parameter's name."""

    container: Container
    clock: Clock
    account: Account
    person_id: int
    art: ImageServer
    ids: dict[str, Any] = field(default_factory=dict)
    elsewhere: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same for paths that begin so, where what is usual is not what they are about."""

    def ids_for(self, path: str) -> dict[str, Any]:
        of_it = (ids for beginning, ids in self.elsewhere.items() if path.startswith(beginning))
        return self.ids | next(of_it, {})

    def cookie(self, mode: str = "test") -> str:
        """Of the owner, who has just given their password, and looks at this mode."""
        with self.container.db.system_transaction() as tx:
            cookie = create_session(
                tx, self.person_id, awaits_code=False, address=None, browser=None, now=self.container.clock()
            )
            newest = sa.select(sa.func.max(sessions.c.id)).scalar_subquery()
            tx.execute(sa.update(sessions).where(sessions.c.id == newest).values(mode=mode))
        return cookie


@contextmanager
def open_sample_account(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[SampleAccount]:
    name = f"furnished_{home.parent.name}_{home.name}".replace("-", "_").lower()
    clock = Clock()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin, ImageServer() as art:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        settings = Settings.model_validate(
            {"home": home, "calls_a_minute": 1_000_000, "allow_private_urls": True, "receiver": True}
        )
        container = bootstrap.build_container(settings, postgres.conninfo(name), clock=clock.now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            account = make_operator(container, http, "owner@example.com")
            person_id = make_user(container, account.id, "dana@example.com")
            make_user(container, account.id, "finn@example.com", role="member", name="Finn Okoro")
            house = SampleAccount(container, clock, account, person_id, art)
            fill_account(house)
            yield house
        container.db.close()
        admin.execute(f'drop database "{name}" with (force)')


def fill_account(house: SampleAccount) -> None:
    given = house.ids
    given["sub_account_id"] = made(house, "/sub-accounts", {"title": "Dallas Branch", **ADDRESS})["id"]
    given["mailing_list_id"] = given["list_id"] = _fill_lists(house)
    message = {"name": "Thank you", "type": "postcard", "content": "Hi %FIRST_NAME%, thank you for stopping by!"}
    given["template_id"] = given["message_template_id"] = made(house, "/message-templates", message)["id"]
    image = {"name": "Teal", "type": "postcard", "image": house.art.picture()}
    given["image_template_id"] = made(house, "/image-templates", image)["id"]
    given["style_id"] = make_style(house.container, house.account)
    given["signature_id"] = sign(house.account)
    hook = {"url": house.art.url("/hook"), "type": "order_item.status_update"}
    given["webhook_id"] = made(house, "/webhooks", hook)["id"]
    _send_orders(house)
    _read_ids(house)
    send = {"piece": "postcard", "message": "Hi %FIRST_NAME%, welcome!", **ADDRESS}
    automation = {"name": "Welcome", "trigger": "list_entry", "mailing_list_id": given["mailing_list_id"], "send": send}
    given["automation_id"] = made(house, "/automations", automation | {"enabled": True})["id"]
    _meet_others(house)


def made(house: SampleAccount, path: str, body: Any) -> Any:
    answer = house.account.post(path, body)
    assert answer.status_code in (200, 201), (path, answer.text)
    found = answer.json()
    return found.get("data", found) if isinstance(found, dict) else found


def _people() -> list[dict[str, Any]]:
    return [
        person(name=NAMES[n % 7], address=f"{n + 1} Main St", city=city, province=state, postal_code=code)
        for n, (city, state, code) in enumerate(TOWNS * 3)
    ]


def _fill_lists(house: SampleAccount) -> int:
    list_id = int(made(house, "/mailing-lists", {"description": "Spring customers"})["id"])
    rows = [each | {"mailing_list_id": list_id} for each in _people()]
    house.ids["recipient_id"] = made(house, "/recipients_multi", rows)[0]["id"]
    made(house, "/mailing-lists", {"description": "Never again", "is_suppression_list": True})
    answer = house.account.call(
        "POST", f"/mailing-lists/{list_id}/import", files={"file": ("people.csv", PEOPLE_FILE.encode())}
    )
    assert answer.status_code == 202, answer.text
    house.ids["import_id"] = answer.json()["id"]
    run_due_jobs(house.container)
    return list_id


def _send_orders(house: SampleAccount) -> None:
    """One that has arrived, but for some pieces; one that was given up; one that waits for an operator; one
    with gift cards; one on its way; and one that can still be cancelled."""

    def send(piece: str = "postcard", **fields: Any) -> int:
        answer = house.account.send(piece, **HOME | fields)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    ends = [person(name=name, address=f"{n} End St") for n, name in enumerate(ENDINGS, start=1)]
    wide = {"front_image_url": house.art.picture("steelblue"), "qrcode_url": "https://example.com/spring"}
    metadata = {"crm_id": 4711, "campaign": {"name": "Spring", "wave": 2}}
    house.ids["order_id"] = send(recipients=_people() + ends, metadata=metadata, **wide)
    gift, held = send("giftcard"), send(message=UNFILLED)
    house.elsewhere["/print-room/held"] = {"order_id": held}
    house.account.put(f"/orders/{send()}/cancel")
    run_jobs_for(house.container, house.clock, seconds=60)
    send(recipients=_people()[:5])
    run_jobs_for(house.container, house.clock, seconds=14)
    waiting = send("notecard")
    with house.container.db.system_transaction() as tx:
        card = tx.execute(sa.select(items.c.id).where(items.c.order_id == gift)).scalar_one()
    house.elsewhere["/orders/{order_id}/items/{item_id}/take-back"] = {"order_id": gift, "item_id": card}
    for act in ("cancel", "change"):
        house.elsewhere[f"/orders/{{order_id}}/{act}"] = {"order_id": waiting}


def _read_ids(house: SampleAccount) -> None:
    tried = house.account.post(f"/webhooks/{house.ids['webhook_id']}/test")
    assert tried.status_code < 300, tried.text
    tomorrow = house.clock.now().date() + timedelta(days=1)
    with house.container.db.system_transaction() as tx:
        known = tx.execute(sa.select(prices).order_by(prices.c.id).limit(1)).one()
        coming = known._asdict() | {"valid_from": tomorrow, "unit_cents": known.unit_cents + 5}
        del coming["id"]
        house.ids["price_id"] = tx.execute(sa.insert(prices).values(coming).returning(prices.c.id)).scalar_one()
        of_order = sa.select(items.c.id).where(items.c.order_id == house.ids["order_id"])
        house.ids["item_id"] = tx.execute(of_order.order_by(items.c.id).limit(1)).scalar_one()
        house.ids["batch_id"] = tx.execute(sa.select(sa.func.min(batches.c.id))).scalar_one()
        house.ids["delivery_id"] = tx.execute(sa.select(sa.func.min(deliveries.c.id))).scalar_one()
    house.ids |= {"account_id": house.account.id, "code": "brindlewick", "name": "manifest.csv", "place": 1}
    house.elsewhere["/print-room/batches/{batch_id}/ticket"] = {"name": TICKET_JSON}
    house.elsewhere["/templates/images"] = {"template_id": house.ids["image_template_id"]}


def _meet_others(house: SampleAccount) -> None:
    """A client of ours, an app that is connected by it, a token, and somebody who is invited."""
    parts, account_id, now = house.container, house.account.id, house.container.clock()
    actor = Actor("dana@example.com", person_id=house.person_id)
    order_request = clients.ClientRegistration("Bridge", ["https://app.example.com/back"])
    with parts.db.system_transaction() as tx:
        client, _ = clients.register_client(tx, account_id, order_request, is_public=False, actor=actor, now=now)
        house.ids |= {"client": client.id, "client_id": client.client_id}
        grant = sa.insert(oauth_grants).values(
            account_id=account_id, mode="test", client_id=client.id, person_id=house.person_id,
            created_at=now, connected_at=now,
        )  # fmt: skip
        house.ids["grant_id"] = tx.execute(grant.returning(oauth_grants.c.id)).scalar_one()
        known: dict[str, Any] = {"mode": "test", "scopes": None, "person_id": house.person_id, "now": now}
        insert_token(tx, account_id, name="a connected app", grant_id=house.ids["grant_id"], **known)
        house.ids["token_id"], _ = insert_token(tx, account_id, name="Shop", **known)
        invitations.invite(
            tx, parts.encryptor, account_id, email="kit@example.com", role="member", sub_account_id=None,
            actor=actor, base_url="", now=now, send_email=False,
        )  # fmt: skip
        teammate = sa.select(sa.func.max(memberships.c.id)).where(memberships.c.account_id == account_id)
        house.ids["membership_id"] = tx.execute(teammate).scalar_one()
        latest = sa.select(sa.func.max(invitation_table.c.id))
        house.ids["invitation_id"] = tx.execute(latest).scalar_one()


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
