"""`quillpost erase`, `retention` and `keys`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

import typer
from rich.console import Console

from quillpost.accounts import service
from quillpost.accounts.audit.service import record_for_operators
from quillpost.app.runtime import CoreServices, key_path, open_core_services
from quillpost.cli.console import (
    JsonOption,
    ProgressBar,
    create_table,
    fixed_column,
    format_count,
    print_json,
    wrapped_column,
)
from quillpost.core.database import Tenant
from quillpost.core.database.encrypted_columns import wait_for_writers
from quillpost.core.encryption import KeyFile
from quillpost.core.errors import NotReady, Refused
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.service import ENCRYPTED_TABLES, count_all_by_key, reencrypt_all
from quillpost.privacy.tasks import MAX_COUNTED, RetentionStatus, list_retention, read_retention_days


def erase(
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    address: Annotated[str | None, typer.Option(help="Whole on one line, as '12 Main St, Austin, TX 78701'.")] = None,
    email: Annotated[str | None, typer.Option(help="Whoever has this e-mail is meant, too.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase a person from all that an account keeps: everyone at the address, and whoever has the e-mail."""
    person = parse_subject({"address": address, "email": email})
    with open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            tenant = Tenant(service.find_account(tx, account))
            preview = erasure_service.preview_erasure(tx, tenant, person, now=runtime.clock())
        typer.echo(
            f"On lists: {preview['recipients']:,}. Pieces: {preview['items']:,}."
            " What was told of them, sends that wait and files go too; counts and money stay."
        )
        if not yes:
            typer.confirm("Erase them for good?", abort=True)
        with runtime.db.system_transaction() as tx:
            result = erasure_service.erase_subject(tx, runtime.encryptor, tenant, person, now=runtime.clock())
    for table, rows in result.erased.items():
        if rows:
            typer.echo(f"{table}: {rows:,}")
    if result.waiting:
        typer.echo(f"{result.waiting:,} pieces are at the printer's: they follow once they are mailed.")
    typer.echo("Erased. Files are removed by the running service, which looks a second time in ten minutes.")


def retention() -> None:
    """Show what is kept for how long, and how much is overdue."""
    with open_core_services() as runtime:
        retention_rows = list_retention(runtime.db, read_retention_days(runtime.settings), now=runtime.clock())
    wrapped_columns = map(wrapped_column, ("what", "table", "days", "since", "overdue"))
    table = create_table(*wrapped_columns, fixed_column("setting"))  # which is to be copied as it stands
    for retention_row in retention_rows:
        days = "for ever" if retention_row.days is None else f"{retention_row.days:,}"
        setting = f"QUILLPOST_{retention_row.rule.setting.upper()}"
        table.add_row(
            retention_row.rule.description,
            retention_row.rule.table,
            days,
            retention_row.rule.counted_from,
            _format_overdue(retention_row),
            setting,
        )
    Console(highlight=False).print(table)


def _format_overdue(retention_row: RetentionStatus) -> str:
    if retention_row.days is None:
        return ""
    return f"{retention_row.overdue_count:,}" + (" or more" if retention_row.overdue_count >= MAX_COUNTED else "")


keys = typer.Typer(help="The keys that seal secrets.", no_args_is_help=True)

SETTING_NAME = "QUILLPOST_SECRET_KEY"
REMOVAL_CONSEQUENCES = (
    "What it has sealed or signed outside of the database ends with it: links by which readers of mails"
    " unsubscribe, links to files, pages that are open in a browser, what tells browsers that are known, and"
    " the address of the built-in receiver, which `quillpost serve --welcome` subscribes anew when it starts."
    " Backups that were made before need it, too: their FILE.key has it."
)
MANUAL_CHANGE_STEPS = (
    "to change the key, add a new one (`openssl rand -base64 32`) as the last, with a space before it, on"
    " every machine, and start them anew"
)
# What a running service has encrypted with the former key is written by then: a print file is in the store before
# anything in the database refers to it.
MIN_KEY_AGE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """The keys, the current one first, and how much is encrypted under each, by place."""

    key_ids: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    is_key_file: bool

    def count_under(self, key_id: str) -> int:
        return sum(by_key.get(key_id, 0) for by_key in self.counts.values())

    @property
    def all_ids(self) -> list[str]:
        """Of keys that are here, or that something is encrypted under."""
        return list(dict.fromkeys([*self.key_ids, *(key for by_key in self.counts.values() for key in by_key)]))

    @property
    def missing_ids(self) -> list[str]:
        return [key_id for key_id in self.all_ids if key_id not in self.key_ids]

    @property
    def outdated_count(self) -> int:
        return sum(self.count_under(key_id) for key_id in self.all_ids[1:])

    def describe_next_step(self) -> str:
        former_ids = ", ".join(self.key_ids[1:])
        if self.missing_ids:
            lost_count = sum(map(self.count_under, self.missing_ids))
            return (
                f"{format_count(lost_count, 'value')} cannot be opened: bring the key {self.missing_ids[0]} back, from"
                " FILE.key of a backup, as the last one."
            )
        if not former_ids:
            advice = "`quillpost keys new` changes the key" if self.is_key_file else MANUAL_CHANGE_STEPS
            return f"All is well; {advice}."
        if self.outdated_count:
            condition = "" if self.is_key_file else ", once every machine has been started anew with these keys"
            count_text = format_count(self.outdated_count, "value")
            return f"Run `quillpost keys reseal`{condition}: {count_text} need a former key."
        if self.is_key_file:
            return (
                f"Nothing needs {former_ids} any more: `quillpost keys forget {self.key_ids[1]}`, at the earliest an"
                " hour after the keys were changed."
            )
        return (
            f"Nothing is sealed under {former_ids}. If it is new: once every machine has been started anew with"
            f" it, make it the first in {SETTING_NAME} on all of them. If it is a former one: remove it there."
        )


@keys.command("list")
def list_(machine: JsonOption = False) -> None:
    """Show the keys by their ids, how much is sealed under each, and what to do next."""
    with open_core_services() as runtime:
        usage = _read_key_usage(runtime)
    if machine:
        current, next_step = usage.key_ids[0], usage.describe_next_step()
        print_json({"keys": usage.key_ids, "current": current, "sealed": usage.counts, "next": next_step})
        return
    table = create_table(wrapped_column("sealed"))
    for key_id in usage.all_ids:
        table.add_column(_column_title(usage, key_id), justify="right")
    for location, by_key in usage.counts.items():
        table.add_row(location, *(f"{by_key.get(key_id, 0):,}" for key_id in usage.all_ids))
    table.add_row("in all", *(f"{usage.count_under(key_id):,}" for key_id in usage.all_ids))
    console = Console(highlight=False)
    console.print(table)
    console.print(usage.describe_next_step(), markup=False, soft_wrap=True)


@keys.command()
def new() -> None:
    """Make a new key, which seals from now on. The others stay, and open what they have sealed.

    Running services notice it by themselves.
    """
    with open_core_services() as runtime:
        if runtime.settings.secret_key is not None:
            raise NotReady(f"The keys are in {SETTING_NAME}, which is yours to change: {MANUAL_CHANGE_STEPS}.")
        with runtime.db.system_transaction() as tx:
            key_id = KeyFile(key_path(runtime.settings.home)).add_key()
            record_for_operators(tx, "key.new", about={"name": key_id}, now=runtime.clock())
    typer.echo(f"{key_id} is the current key. Run `quillpost keys reseal` next, and take a backup of the key file.")


@keys.command()
def reseal() -> None:
    """Seal everything anew that is under a former key, while the service runs.

    It may be stopped at any time, and run again.
    """
    with open_core_services() as runtime:
        outdated_count = _read_key_usage(runtime).outdated_count
        reencrypted_count, broken_count = _reencrypt_all(runtime, outdated_count)
        with runtime.db.system_transaction() as tx:
            about = {"name": runtime.encryptor.current_key_id, "how_many": reencrypted_count}
            record_for_operators(tx, "key.resealed", about=about, now=runtime.clock())
        usage = _read_key_usage(runtime)
    typer.echo(f"{format_count(reencrypted_count, 'value')} sealed anew under {usage.key_ids[0]}.")
    if broken_count:
        typer.echo(f"{format_count(broken_count, 'value')} could not be opened, and stay as they are.", err=True)
    typer.echo(usage.describe_next_step())
    if broken_count:
        raise typer.Exit(1)


@keys.command()
def forget(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `quillpost keys list` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a former key for good, if nothing is sealed under it any more."""
    with open_core_services() as runtime:
        _require_unused(runtime, key_id)
        if runtime.settings.secret_key is not None:
            typer.echo(
                f"Nothing needs {key_id}. If every machine has been started anew since another key is the"
                f" first: remove it from {SETTING_NAME} on all of them. {REMOVAL_CONSEQUENCES}"
            )
            return
        typer.echo(REMOVAL_CONSEQUENCES)
        if not yes:
            typer.confirm(f"Forget {key_id} for good?", abort=True)
        with runtime.db.system_transaction() as tx:
            KeyFile(key_path(runtime.settings.home)).delete_key(key_id)
            record_for_operators(tx, "key.forgotten", about={"name": key_id}, now=runtime.clock())
    typer.echo(f"{key_id} is gone.")


def _read_key_usage(runtime: CoreServices) -> KeyUsage:
    counts = count_all_by_key(runtime.db, BatchFileStorage(runtime.store, runtime.encryptor))
    return KeyUsage(runtime.encryptor.key_ids, counts, is_key_file=runtime.settings.secret_key is None)


def _reencrypt_all(runtime: CoreServices, total: int) -> tuple[int, int]:
    """How many values were encrypted again, and how many no key decrypts."""
    reencrypted_count = broken_count = 0
    with ProgressBar("Sealing anew", total) as bar:
        for _, step in reencrypt_all(
            runtime.db, BatchFileStorage(runtime.store, runtime.encryptor), now=runtime.clock()
        ):
            reencrypted_count, broken_count = reencrypted_count + step.reencrypted, broken_count + step.failed
            bar.set_completed(reencrypted_count)
    return reencrypted_count, broken_count


def _require_unused(runtime: CoreServices, key_id: str) -> None:
    key_ids = runtime.encryptor.key_ids
    if key_id == key_ids[0]:
        raise Refused(f"{key_id} is the current key: make another one first.")
    if key_id not in key_ids:
        raise Refused(f"There is no key {key_id}: there are {', '.join(key_ids)}.")
    # What was sealed before the key was changed may be on its way into the database still.
    if runtime.settings.secret_key is None:  # else the processes that sealed with it have ended
        deletable_at = KeyFile(key_path(runtime.settings.home)).changed_at + MIN_KEY_AGE
        if runtime.clock() < deletable_at:
            raise Refused(
                "The keys were changed less than an hour ago, and what was sealed before may not be written"
                f" yet: try again from {deletable_at:%H:%M} UTC on."
            )
    for table in ENCRYPTED_TABLES:
        if not wait_for_writers(runtime.db, table):
            raise Refused(f"Somebody writes to {table.name} for long: try again later.")
    usage = _read_key_usage(runtime)
    if value_count := usage.count_under(key_id):
        raise Refused(
            f"{format_count(value_count, 'value')} may still need {key_id}: run `quillpost keys reseal` first."
        )


def _column_title(usage: KeyUsage, key_id: str) -> str:
    if key_id == usage.key_ids[0]:
        return f"{key_id} (current)"
    return f"{key_id} (former)" if key_id in usage.key_ids else f"{key_id} (missing)"
