"""Places for files: on this machine, over a real SFTP server and in the file store, all alike."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import pytest
from paramiko import HostKeys

from quillpost.core.errors import NotReady
from quillpost.core.ports import FileMissing
from quillpost.integrations.folders.local import LocalFolder, StorageFolder, build_folder
from quillpost.integrations.folders.models import (
    FolderDown,
    FolderFileTooLarge,
    OpenFolder,
    RemoteFolder,
    SftpCredentials,
)
from quillpost.integrations.folders.sftp import SftpFolder, load_private_key
from quillpost.integrations.storage.objects import build_folder_store
from support.sftp_server import PASSWORD, USER, SftpServer


@pytest.fixture
def house(tmp_path: Path) -> Iterator[SftpServer]:
    with SftpServer(tmp_path / "jobs") as house:
        yield house


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[OpenFolder]:
    root = folder / "jobs"
    if kind == "sftp":
        with SftpServer(root) as house, house.place(folder).open() as visit:
            yield visit
        return
    root.mkdir()
    local: RemoteFolder = LocalFolder(root)
    place = local if kind == "local" else StorageFolder(build_folder_store(root), "tracking/inbox")
    with place.open() as visit:
        yield visit


@pytest.fixture(params=["local", "sftp", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFolder]:
    with opened(request.param, tmp_path) as visit:
        yield visit


def failure_of(place: RemoteFolder) -> str:
    """What is said when it is opened."""
    with pytest.raises(FolderDown) as down, place.open():
        pass
    return str(down.value)


def test_what_was_put_is_there_and_nothing_else(place: OpenFolder) -> None:
    place.put("a/b/c.pdf", b"\0" * 3_000_000)
    place.put("a/empty", b"long ago")
    place.put("a/empty", b"")
    assert (place.get("a/b/c.pdf"), place.get("a/empty")) == (b"\0" * 3_000_000, b"")
    assert [place.size(name) for name in ("a/b/c.pdf", "a/empty", "a/b", "x")] == [3_000_000, 0, None, None]
    assert [place.exists(name) for name in ("a", "a/b/c.pdf", "a/b/c", "x/y")] == [True, True, False, False]
    assert place.names("a") == ["b", "empty"]
    for name in ("nothing", "no/such/file"):
        with pytest.raises(FileMissing):
            place.get(name)
    with pytest.raises(FileMissing):
        place.rename("nothing", "something")
    place.delete("nothing")
    assert place.names("nothing") == []


def test_names_are_those_of_one_folder_in_order_until_it_is_removed(place: OpenFolder) -> None:
    for name in ("b", "a/x", "a/y/z", "c"):
        place.put(name, b"12345")
    assert place.names("") == ["a", "b", "c"]
    assert place.names("a") == ["x", "y"]
    assert place.get("b", max_bytes=5) == b"12345"
    with pytest.raises(FolderFileTooLarge, match="b is larger than 4 bytes"):
        place.get("b", max_bytes=4)
    for name in ("a", "b", "c"):
        place.delete(name)
    assert place.names("") == []


def test_files_and_folders_move_but_never_over_another(place: OpenFolder) -> None:
    place.put("new/one", b"1")
    place.put("new/two", b"2")
    assert place.rename("new/one", "done/one")
    assert place.names("new") == ["two"]
    place.put("new/one", b"another")
    assert not place.rename("new/one", "done/one")
    assert (place.get("done/one"), place.get("new/one")) == (b"1", b"another")
    assert not place.rename("new", "done")
    assert place.rename("new", "elsewhere/whole")
    assert place.names("elsewhere/whole") == ["one", "two"]
    assert not place.exists("new")


@pytest.mark.parametrize("kind", ["local", "sftp"])
def test_no_name_leads_outside(kind: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    with opened(kind, tmp_path) as folder:
        for name in ("../x", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\nb", "a" * 201):
            with subtests.test(name[:20]):
                for use in (folder.get, folder.exists, folder.names, folder.delete):
                    with pytest.raises(ValueError, match="not the name"):
                        use(name)
                with pytest.raises(ValueError, match="not the name"):
                    folder.put(name, b"")
        assert folder.names("") == []


def test_odd_names_links_and_pipes_of_others_are_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("good.csv", "bad\nname", "x" * 201, "back\\slash", os.fsdecode(b"not-utf8-\xff")):
        (root / name).touch()
    with LocalFolder(root).open() as place:
        assert place.names("") == ["good.csv"]
        (tmp_path / "secret").write_text("hush")
        (root / "link").symlink_to(tmp_path / "secret")
        os.mkfifo(root / "pipe")
        for name in ("link", "pipe"):
            with pytest.raises(FolderDown):
                place.get(name)
            assert place.size(name) is None
        place.delete("link")
    assert (tmp_path / "secret").read_text() == "hush"
    gone = tmp_path / "not-mounted"
    assert "not there: make it, or mount its disk" in failure_of(LocalFolder(gone))
    assert not gone.exists()


def test_a_server_that_is_not_the_known_one_or_does_not_let_us_in_is_down(house: SftpServer, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    assert "no folder /in/vain on 127" in failure_of(house.place(tmp_path, within="/in/vain"))
    wrong = failure_of(house.place(tmp_path, password="wrong secret"))
    assert "does not let press in" in wrong
    assert "wrong secret" not in wrong
    place = house.place(tmp_path)
    house.known_hosts(tmp_path, key=asyncssh.generate_private_key("ssh-ed25519"))
    assert "is not the one in QUILLPOST_SFTP_KNOWN_HOSTS" in failure_of(place)
    known.write_text("# nobody\n")
    assert "not in QUILLPOST_SFTP_KNOWN_HOSTS" in failure_of(place)
    # A hashed name among several hosts is found.
    ours, name = house.known_hosts(tmp_path).read_text(), f"[127.0.0.1]:{house.port}"
    others = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    hashed = ours.replace(name, HostKeys.hash_host(name))
    known.write_text(f"# hosts\nnot a line\nother.example.com {others}{hashed}[127.0.0.1]:1 {others}")
    with place.open() as visit:
        assert visit.names("") == []
    house.close()
    assert "could not be reached" in failure_of(place)


def test_a_key_signs_in(house: SftpServer, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"):
        key, path = asyncssh.generate_private_key(kind), tmp_path / "key"
        house.client_key = key.export_public_key()
        uses: list[tuple[str | None, str | None]] = [(None, None), (None, "not needed")]
        if kind == "ssh-ed25519":  # one locked key is enough: to open it takes long, as it should
            uses.append(("open sesame", "open sesame"))
        for passphrase, given in uses:
            with subtests.test(kind, passphrase=passphrase, given=given):
                path.write_bytes(key.export_private_key(passphrase=passphrase, rounds=60))
                with house.place(tmp_path, key=path, password=given).open() as place:
                    place.put("x", kind.encode())
                assert (house.root / "x").read_bytes() == kind.encode()
                (house.root / "x").unlink()


def test_keys_of_every_form_are_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "key"
    for kind in ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"):
        forms = ["openssh", "pkcs8-pem"] + (["pkcs1-pem"] if kind != "ssh-ed25519" else [])
        for _ in range(1 if kind == "ssh-rsa" else 8):  # of some forms paramiko itself reads every other key
            key = asyncssh.generate_private_key(kind)
            for form in forms:
                with subtests.test(kind, form=form):
                    path.write_bytes(key.export_private_key(form))
                    read = load_private_key(SftpCredentials(key=path))
                    assert read is not None
                    assert read.get_base64() == key.export_public_key().decode().split()[1]
    assert "hush" not in repr(SftpCredentials(password="hush"))


def test_a_connection_that_is_cut_is_down_and_leaves_no_half_file(house: SftpServer, tmp_path: Path) -> None:
    house.breaks_after = 500_000
    with pytest.raises(FolderDown), house.place(tmp_path).open() as place:
        place.put("job/print.pdf", b"x" * 2_000_000)
    assert not (house.root / "job" / "print.pdf").exists()


def test_a_server_that_does_not_speak_sftp_is_down(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").touch()
    keys = SftpCredentials(password="x", known_hosts=tmp_path / "known_hosts")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        place = SftpFolder("127.0.0.1", port=port, user="u", folder="/", credentials=keys, seconds=0.3)
        assert failure_of(place).startswith("127")


def test_a_full_address_finds_the_place(house: SftpServer, tmp_path: Path) -> None:
    keys = SftpCredentials(password=PASSWORD, known_hosts=house.known_hosts(tmp_path))
    (house.root / "in box").mkdir()
    address = f"sftp://{USER}@127.0.0.1:{house.port}/in%20box"
    with build_folder(address, credentials=keys, setting="QUILLPOST_X").open() as place:
        place.put("x", b"1")
    local = build_folder(f"file://{house.root}/in%20box", credentials=SftpCredentials(), setting="QUILLPOST_X")
    with local.open() as again:
        assert again.get("x") == b"1"


def test_wrong_addresses_and_key_files_are_refused_at_startup(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "no-key").write_bytes(b"no key")
    (tmp_path / "known_hosts").touch()
    known, good = tmp_path / "known_hosts", "sftp://user@host/path"
    plain = SftpCredentials(password="x")
    cases = [
        ("ftp://host/path", plain, "QUILLPOST_X must be file:///path or sftp://user@host:port/path."),
        ("jobs", plain, "QUILLPOST_X must be file:///path or sftp"),
        ("file://jobs", plain, "by its whole path"),
        ("file:jobs", plain, "by its whole path"),
        ("sftp://host/path", plain, "must name a user and a machine"),
        ("sftp://user@/path", plain, "must name a user and a machine"),
        ("sftp://user:hush@host/path", plain, "must not hold a password: set QUILLPOST_SFTP_PASSWORD"),
        ("sftp://user@host:99999/path", plain, "not an address that we can read"),
        ("sftp://user@host/path?x=1", plain, "must end with the path of a folder"),
        (good, plain, "QUILLPOST_SFTP_KNOWN_HOSTS is not set"),
        (good, SftpCredentials(None, None, known), "Neither QUILLPOST_SFTP_KEY nor QUILLPOST_SFTP_PASSWORD is set."),
        (good, SftpCredentials(tmp_path / "no-key", None, known), "not a private key that we can open"),
        (good, SftpCredentials(None, "x", tmp_path / "absent"), "not a known_hosts file that we can read"),
    ]
    for address, keys, error in cases:
        with subtests.test(address, error=error):
            with pytest.raises(NotReady) as refused:
                build_folder(address, credentials=keys, setting="QUILLPOST_X")
            assert error in refused.value.message
            assert "hush" not in refused.value.message
