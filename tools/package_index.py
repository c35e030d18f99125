"""Where packages come from on this machine: pip's settings, passed on to uv."""

from __future__ import annotations

import base64
import configparser
import os
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

FETCH_SECONDS = 60

# pip's option: uv's variable, and its separator between values
UV_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
UV_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")


def pip_option(name: str) -> list[str]:
    """The values of one of pip's options, from its variable or the last of its files that sets it."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    for file in _pip_files():
        if value is not None:
            break
        settings = configparser.RawConfigParser(strict=False)
        settings.read(file, encoding="utf-8")
        for section in ("install", "global"):
            value = settings.get(section, name, fallback=value)
    return (value or "").split()


def variables_for_uv() -> dict[str, str]:
    """pip's settings as variables of uv. Variables that are already set for uv stay."""
    variables = {}
    for option, (variable, separator) in UV_VARIABLES.items():
        values = pip_option(option)
        if values and variable not in os.environ:
            variables[variable] = separator.join(values)
    if any(name in os.environ for name in UV_INDEX_VARIABLES):
        variables.pop("UV_DEFAULT_INDEX", None)
    # Like pip, look at every index for each package; the hashes decide which file is the right one.
    variables.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return variables


def fetch(package: str, file_name: str) -> bytes:
    """One file from this machine's package index. Raises OSError if there is no index or no such file."""
    address = _index_address()
    page_address = f"{address.rstrip('/')}/{package}/"
    links = _Links()
    links.feed(_read(page_address).decode())
    for link in links.found:
        if unquote(urlsplit(link).path).rpartition("/")[2] == file_name:
            return _read(urljoin(page_address, link))
    raise OSError(f"the package index has no {file_name}")


def _index_address() -> str:
    uv_indexes = [os.environ[name] for name in UV_INDEX_VARIABLES if os.environ.get(name)]
    addresses = pip_option("index-url") + uv_indexes
    if not addresses:
        raise OSError("no package index is named")
    return addresses[0]


def _pip_files() -> list[Path]:
    """pip's configuration files, by precedence."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path.home fails without a home)
    named = os.environ.get("PIP_CONFIG_FILE")
    personal = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [
        *([Path(named)] if named else []),
        Path(sys.prefix) / "pip.conf",
        personal / "pip" / "pip.conf",
        home / ".pip" / "pip.conf",
        Path("/etc/pip.conf"),
        Path("/etc/xdg/pip/pip.conf"),
    ]


def _read(address: str) -> bytes:
    parts = urlsplit(address)
    account, _, host = parts.netloc.rpartition("@")
    headers = {"Accept": "text/html, */*"}
    if account:  # urllib does not take them from the address
        secret = base64.b64encode(unquote(account).encode()).decode()
        headers["Authorization"] = f"Basic {secret}"
    plain = urlunsplit(parts._replace(netloc=host))
    request = urllib.request.Request(plain, headers=headers)
    with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:
        content: bytes = response.read()
    return content


class _Links(HTMLParser):
    """Collects the addresses of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]
