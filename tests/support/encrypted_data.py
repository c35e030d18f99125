"""Print files and gift cards that lie encrypted in the storage and the tables, without any press."""

from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.encryption import Encryptor
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.rules import claim_digest


def encrypted_file(container: Container) -> int:
    """A batch of gift cards with its print file."""
    with container.db.system_transaction() as tx:
        batch = tx.execute(
            sa.text(
                """insert into batches (mode, status, piece, mail_class, created_at, item_count)
                   values ('test', 'mailed', 'giftcard', 'first', now(), 0) returning id"""
            )
        ).scalar_one()
        tx.execute(sa.text("insert into batch_files values (:batch, 'print.pdf', 4, '', true)"), {"batch": batch})
    BatchFileStorage(container.storage.store, container.encryptor).put_files(
        batch, {"print.pdf": b"%PDF"}, secret_names={"print.pdf"}
    )
    return int(batch)


ITEMS = """
    insert into items ({columns})
    select {columns} from items, generate_series(1, %(how_many)s) where id = %(like)s returning id
"""
COLUMNS = """
    select string_agg(quote_ident(column_name), ', ') from information_schema.columns
     where table_schema = 'public' and table_name = 'items' and is_generated = 'NEVER'
       and column_name not in ('id', 'code', 'tracking')
"""
CARDS = """
    copy giftcards (item_id, account_id, mode, order_id, brand, cents, status, issuer, claim_digest,
                    claim_sealed, card_sealed, asked_at, issued_at) from stdin
"""
STOCK = "copy giftcard_stock (id, mode, brand, cents, card_sealed, source, loaded_at) from stdin"


MODEL = "select account_id, mode, order_id, brand, cents, issued_at from giftcards where item_id = %s"


def code_of(number: int) -> str:
    return f"CARD-{number:09d}"


def make_many(conninfo: str, encryptor: Encryptor, like: int, how_many: int) -> dict[int, str]:
    """Issued cards of pieces like this one, which has a card, and as many more in stock; the claims of the
    pieces. Nothing is counted for them, and no money moves."""
    with psycopg.connect(conninfo) as admin:
        admin.execute("set session_replication_role = replica")
        columns = _one(admin, COLUMNS)[0]
        made = admin.execute(ITEMS.format(columns=columns).encode(), {"like": like, "how_many": how_many}).fetchall()
        claims = {item_id: issuance.new_claim() for [item_id] in made}
        account_id, mode, order_id, brand, cents, at = _one(admin, MODEL, like)
        with admin.cursor().copy(CARDS) as copy:
            for item_id, claim in claims.items():
                card = CardSecret(code=code_of(item_id))
                copy.write_row(
                    (
                        *(item_id, account_id, mode, order_id, brand, cents, "issued", "sandbox"),
                        claim_digest(claim),
                        issuance.encrypt_claim(encryptor, item_id, claim),
                        issuance.encrypt_card(encryptor, issuance.card_context(item_id), card),
                        *(at, at),
                    )
                )
        ids = admin.execute(
            "select nextval('giftcard_stock_id_seq') from generate_series(1, %s)", [how_many]
        ).fetchall()
        with admin.cursor().copy(STOCK) as copy:
            for [row_id] in ids:
                own = issuance.encrypt_card(encryptor, issuance.stock_context(row_id), CardSecret(code=code_of(row_id)))
                copy.write_row((row_id, "live", brand, cents, own, "cards.csv", at))
    return claims


def _one(admin: psycopg.Connection, query: LiteralString, *values: int) -> tuple[Any, ...]:
    row = admin.execute(query, values).fetchone()
    assert row is not None
    return tuple(row)
