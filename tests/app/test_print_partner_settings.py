"""Which settings choose which print partner, and what is told at the start when they do not fit."""

import base64
from pathlib import Path

import pytest

from quillpost.app.environments import (
    build_live_printer,
    ping_print_partner,
    read_partner_name,
    read_print_webhook_secrets,
)
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.fulfillment.ports import PartnerDown, PrintPartner
from quillpost.integrations.printing.folder import FolderPartner, HotFolder
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.storage.objects import build_folder_store
from support.print_partners import REFERENCE, job, now
from support.print_server import SECRET


def settings(tmp_path: Path, **chosen: object) -> Settings:
    return Settings.model_validate({"home": tmp_path / "home"} | chosen)


def partner(tmp_path: Path, **chosen: object) -> PrintPartner:
    return build_live_printer(settings(tmp_path, **chosen), build_folder_store(tmp_path / "files"))


def test_the_address_chooses_the_partner(tmp_path: Path) -> None:
    assert isinstance(partner(tmp_path, print_partner="folder"), FolderPartner)
    assert isinstance(partner(tmp_path, print_partner=f"file://{tmp_path}"), HotFolder)
    web = {"print_partner": "https://print.example.com/press/", "print_secret": SECRET}
    assert isinstance(partner(tmp_path, **web), HttpPartner)
    (tmp_path / "known_hosts").touch()
    sftp = {"sftp_password": "hush", "sftp_known_hosts": tmp_path / "known_hosts"}
    assert isinstance(partner(tmp_path, print_partner="sftp://us@print.example.com/jobs", **sftp), HotFolder)


def test_the_embedded_partner_lays_jobs_into_the_file_store(tmp_path: Path) -> None:
    partner(tmp_path, print_partner="folder").submit(job(), now=now())
    assert (tmp_path / "files" / "print-jobs" / "live" / REFERENCE / "ticket.json").exists()


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ({"print_partner": "printer"}, "must be folder, file:///path, sftp://user@host:port/path or https"),
        ({"print_partner": ""}, "must be folder, file:///path"),
        ({"print_partner": "ftp://host/"}, "must be folder, file:///path"),
        ({"print_partner": "https://print.example.com"}, "QUILLPOST_PRINT_SECRET must be set, to sign with."),
        ({"print_partner": "https://u:hush@host/", "print_secret": SECRET}, "must not hold a user or a pass"),
        ({"print_partner": "https:///jobs", "print_secret": SECRET}, "such as https://host/path"),
        ({"print_partner": "https://host/?key=hush", "print_secret": SECRET}, "such as https://host/path"),
        ({"print_partner": "http://host:x/", "print_secret": SECRET}, "not an address that we can read"),
        ({"print_partner": "file:jobs"}, "QUILLPOST_PRINT_PARTNER must name a folder by its whole path"),
        ({"print_partner": "sftp://us@host/"}, "QUILLPOST_SFTP_KNOWN_HOSTS is not set"),
        ({"print_secret": "hush"}, "QUILLPOST_PRINT_SECRET must be whsec_ and 24 to 64 bytes as base64."),
        ({"print_secret": "whsec_aHVzaA=="}, "24 to 64 bytes"),
        ({"print_secret": f"{SECRET} whsec_é"}, "24 to 64 bytes"),
        ({"print_secret": base64.b64encode(b"h" * 32).decode()}, "whsec_"),
    ],
)
def test_invalid_settings_are_refused_at_startup(tmp_path: Path, chosen: dict[str, str], error: str) -> None:
    with pytest.raises(NotReady) as refused:
        partner(tmp_path, **chosen)
    assert error in refused.value.message
    assert "hush" not in refused.value.message
    assert SECRET not in refused.value.message


def test_only_a_partner_with_a_secret_may_call_back(tmp_path: Path) -> None:
    assert read_print_webhook_secrets(settings(tmp_path, print_partner="folder")) == {}
    assert read_print_webhook_secrets(settings(tmp_path, print_secret=SECRET)) == {}
    named = settings(tmp_path, print_partner="folder", print_secret=SECRET, print_partner_name="acme")
    assert read_print_webhook_secrets(named) == {"acme": [SECRET]}


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    chosen = settings(tmp_path, print_secret=SECRET, sftp_password="hush")
    assert SECRET not in repr(chosen)
    assert "hush" not in repr(chosen)


def test_one_that_can_be_reached_is_named(tmp_path: Path) -> None:
    store, hot = build_folder_store(tmp_path / "files"), tmp_path / "hot"
    there = settings(tmp_path, print_partner=f"file://{hot}")
    with pytest.raises(PartnerDown, match="is not there"):
        ping_print_partner(there, store)
    hot.mkdir()
    assert ping_print_partner(there, store) == str(hot)
    assert ping_print_partner(settings(tmp_path, print_partner="folder"), store) == "print-jobs/live in the file store"


def test_a_batch_remembers_its_partner_without_the_password(tmp_path: Path) -> None:
    known = {
        "folder": "folder",
        "https://print.example.com/base": "https://print.example.com/base",
        "https://token:hush@print.example.com/base": "https://print.example.com/base",
        "https://token@print.example.com/base": "https://print.example.com/base",
        "sftp://press:secret@print.example.com:2222/in": "sftp://press@print.example.com:2222/in",
        "SFTP://Press@Print.Example.com:22/In/": "sftp://Press@print.example.com/In",
        "sftp://press:secret@print.example.com:port/in": "print.example.com:port/in",
    }
    assert {given: read_partner_name(settings(tmp_path, print_partner=given)) for given in known} == known
