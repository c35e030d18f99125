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

KINDS = ("local", "sftp", "store")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[SftpServer]:
    with SftpServer(tmp_path / "jobs") as house:
        yield house


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[OpenFolder]:
    root = folder / "jobs"
    place: RemoteFolder
    match kind:
        case "local":
            root.mkdir()
            place = LocalFolder(root)
        case "store":
            place = StorageFolder(build_folder_store(root), "tracking/inbox")
        case _:
            with SftpServer(root) as house, house.place(folder).open() as visit:
                yield visit
            return
    with place.open() as visit:
        yield visit


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFolder]:
    with opened(request.param, tmp_path) as visit:
        yield visit


@pytest.fixture(params=["local", "sftp"])
def true_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenFolder]:
    """A place whose folders are folders."""
    with opened(request.param, tmp_path) as visit:
        yield visit


def test_what_was_put_is_there(place: OpenFolder) -> None:
    place.put("a/b/c.pdf", b"\0" * 3_000_000)
    place.put("a/empty", b"")
    assert place.get("a/b/c.pdf") == b"\0" * 3_000_000
    assert place.get("a/empty") == b""
    assert (place.size("a/b/c.pdf"), place.size("a/empty"), place.size("a/b"), place.size("x")) == (
        3_000_000, 0, None, None,
    )  # fmt: skip
    assert [place.exists(name) for name in ("a", "a/b/c.pdf", "a/b/c", "x/y")] == [True, True, False, False]


def test_a_file_is_written_over(place: OpenFolder) -> None:
    place.put("job/mark", b"long ago")
    place.put("job/mark", b"now")
    assert place.get("job/mark") == b"now"
    assert place.names("job") == ["mark"]


def test_a_missing_file_is_missing(place: OpenFolder) -> None:
    for name in ("nothing", "no/such/file"):
        with pytest.raises(FileMissing):
            place.get(name)
    with pytest.raises(FileMissing):
        place.rename("nothing", "something")
    place.delete("nothing")
    assert place.names("nothing") == []


def test_names_are_those_of_one_folder_in_order(place: OpenFolder) -> None:
    for name in ("b", "a/x", "c"):
        place.put(name, b"1")
    assert place.names("") == ["a", "b", "c"]
    assert place.names("a") == ["x"]


def test_a_large_file_is_not_read_to_its_end(place: OpenFolder) -> None:
    place.put("f", b"12345")
    assert place.get("f", max_bytes=5) == b"12345"
    with pytest.raises(FolderFileTooLarge, match="f is larger than 4 bytes"):
        place.get("f", max_bytes=4)


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


def test_a_folder_is_removed_with_all_that_is_in_it(place: OpenFolder) -> None:
    for name in ("a/b/c", "a/d", "e"):
        place.put(name, b"1")
    place.delete("a")
    place.delete("e")
    assert place.names("") == []


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\nb", "a" * 201])
def test_no_name_leads_outside(true_folder: OpenFolder, name: str) -> None:
    for use in (true_folder.get, true_folder.exists, true_folder.names, true_folder.delete):
        with pytest.raises(ValueError, match="not the name"):
            use(name)
    with pytest.raises(ValueError, match="not the name"):
        true_folder.put(name, b"")
    assert true_folder.names("") == []


def test_odd_names_of_others_are_left_out(tmp_path: Path) -> None:
    for name in ("good.csv", "bad\nname", "x" * 201, "back\\slash"):
        (tmp_path / name).touch()
    (tmp_path / os.fsdecode(b"not-utf8-\xff")).touch()
    with LocalFolder(tmp_path).open() as place:
        assert place.names("") == ["good.csv"]


def test_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("hush")
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe")
    with LocalFolder(root).open() as place:
        for name in ("link", "pipe"):
            with pytest.raises(FolderDown):
                place.get(name)
            assert place.size(name) is None
        place.delete("link")
    assert (tmp_path / "secret").read_text() == "hush"


def test_a_missing_folder_is_down_and_not_created(tmp_path: Path) -> None:
    gone = tmp_path / "not-mounted"
    with pytest.raises(FolderDown, match="not there: make it, or mount its disk"), LocalFolder(gone).open():
        pass
    assert not gone.exists()


def test_a_folder_that_is_not_on_the_server_is_named(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path, within="/in/vain")
    with pytest.raises(FolderDown, match="no folder /in/vain on 127"), place.open():
        pass


def test_a_server_with_another_host_key_is_not_spoken_to(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path)
    house.known_hosts(tmp_path, key=asyncssh.generate_private_key("ssh-ed25519"))
    with pytest.raises(FolderDown, match="is not the one in QUILLPOST_SFTP_KNOWN_HOSTS"), place.open():
        pass


def test_a_hashed_name_among_several_hosts_is_found(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path)
    path = tmp_path / "known_hosts"
    ours = path.read_text()
    hashed = ours.replace(f"[127.0.0.1]:{house.port}", HostKeys.hash_host(f"[127.0.0.1]:{house.port}"))
    others = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    path.write_text(f"# hosts\nnot a line\nother.example.com {others}{hashed}[127.0.0.1]:1 {others}")
    with place.open() as visit:
        assert visit.names("") == []


def test_a_host_without_a_known_key_is_refused(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path)
    (tmp_path / "known_hosts").write_text("# nobody\n")
    with pytest.raises(FolderDown, match="not in QUILLPOST_SFTP_KNOWN_HOSTS"), place.open():
        pass


def test_a_wrong_password_is_reported_without_showing_it(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path, password="wrong secret")
    with pytest.raises(FolderDown, match="does not let press in") as error, place.open():
        pass
    assert "wrong secret" not in str(error.value)


@pytest.mark.parametrize(("passphrase", "given"), [(None, None), ("open sesame", "open sesame"), (None, "not needed")])
@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"])
def test_a_key_signs_in(
    house: SftpServer, tmp_path: Path, kind: str, passphrase: str | None, given: str | None
) -> None:
    key = asyncssh.generate_private_key(kind)
    house.client_key = key.export_public_key()
    path = tmp_path / "key"
    path.write_bytes(key.export_private_key(passphrase=passphrase, rounds=60))
    with house.place(tmp_path, key=path, password=given).open() as place:
        place.put("x", b"1")
    assert (house.root / "x").read_bytes() == b"1"


@pytest.mark.parametrize("form", ["openssh", "pkcs1-pem", "pkcs8-pem"])
@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"])
def test_keys_of_every_form_are_read(tmp_path: Path, kind: str, form: str) -> None:
    if (kind, form) == ("ssh-ed25519", "pkcs1-pem"):
        form = "pkcs8-pem"  # there is no such key
    for _ in range(1 if kind == "ssh-rsa" else 8):  # of some forms paramiko itself reads every other key
        key = asyncssh.generate_private_key(kind)
        path = tmp_path / "key"
        path.write_bytes(key.export_private_key(form))
        read = load_private_key(SftpCredentials(key=path))
        assert read is not None
        assert read.get_base64() == key.export_public_key().decode().split()[1]


def test_a_password_is_not_shown() -> None:
    assert "hush" not in repr(SftpCredentials(password="hush"))


def test_a_connection_that_is_cut_is_down_and_leaves_no_half_file(house: SftpServer, tmp_path: Path) -> None:
    house.breaks_after = 500_000
    with pytest.raises(FolderDown), house.place(tmp_path).open() as place:
        place.put("job/print.pdf", b"x" * 2_000_000)
    assert not (house.root / "job" / "print.pdf").exists()


def test_a_server_that_is_not_there_is_down(house: SftpServer, tmp_path: Path) -> None:
    place = house.place(tmp_path)
    house.close()
    with pytest.raises(FolderDown, match="could not be reached"), place.open():
        pass


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_does_not_speak_sftp_is_down(tmp_path: Path, greeting: bytes) -> None:
    (tmp_path / "known_hosts").touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keys = SftpCredentials(password="x", known_hosts=tmp_path / "known_hosts")
        port = listener.getsockname()[1]
        place = SftpFolder("127.0.0.1", port=port, user="u", folder="/", credentials=keys, seconds=0.3)
        with pytest.raises(FolderDown, match=r"^127"), place.open():
            pass


def test_a_full_address_finds_the_place(house: SftpServer, tmp_path: Path) -> None:
    keys = SftpCredentials(password=PASSWORD, known_hosts=house.known_hosts(tmp_path))
    (house.root / "in box").mkdir()
    address = f"sftp://{USER}@127.0.0.1:{house.port}/in%20box"
    with build_folder(address, credentials=keys, setting="QUILLPOST_X").open() as place:
        place.put("x", b"1")
    local = build_folder(f"file://{house.root}/in%20box", credentials=SftpCredentials(), setting="QUILLPOST_X")
    with local.open() as again:
        assert again.get("x") == b"1"


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("ftp://host/path", "QUILLPOST_X must be file:///path or sftp://user@host:port/path."),
        ("jobs", "QUILLPOST_X must be file:///path or sftp"),
        ("file://jobs", "by its whole path"),
        ("file:jobs", "by its whole path"),
        ("sftp://host/path", "must name a user and a machine"),
        ("sftp://user@/path", "must name a user and a machine"),
        ("sftp://user:hush@host/path", "must not hold a password: set QUILLPOST_SFTP_PASSWORD"),
        ("sftp://user@host:99999/path", "not an address that we can read"),
        ("sftp://user@host/path?x=1", "must end with the path of a folder"),
        ("sftp://user@host/path", "QUILLPOST_SFTP_KNOWN_HOSTS is not set"),
    ],
)
def test_a_wrong_address_is_refused_at_startup(address: str, error: str) -> None:
    with pytest.raises(NotReady) as refused:
        build_folder(address, credentials=SftpCredentials(password="x"), setting="QUILLPOST_X")
    assert error in refused.value.message
    assert "hush" not in refused.value.message


@pytest.mark.parametrize(
    ("key", "known_hosts", "password", "error"),
    [
        (None, b"", None, "Neither QUILLPOST_SFTP_KEY nor QUILLPOST_SFTP_PASSWORD is set."),
        (b"no key", b"", None, "not a private key that we can open"),
        (None, None, "x", "not a known_hosts file that we can read"),
    ],
)
def test_unusable_key_files_are_refused_at_startup(
    tmp_path: Path, key: bytes | None, known_hosts: bytes | None, password: str | None, error: str
) -> None:
    for name, data in (("key", key), ("known_hosts", known_hosts)):
        if data is not None:
            (tmp_path / name).write_bytes(data)
    keys = SftpCredentials(tmp_path / "key" if key is not None else None, password, tmp_path / "known_hosts")
    with pytest.raises(NotReady) as refused:
        build_folder("sftp://user@host/path", credentials=keys, setting="QUILLPOST_X")
    assert error in refused.value.message
