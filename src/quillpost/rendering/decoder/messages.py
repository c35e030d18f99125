"""What the service and its decoder say to each other: a head of plain facts, then bytes.

Nothing in a message can do anything but be read: the decoder may have been taken over by what it read.
"""

import json
import struct
from collections.abc import Callable, Sequence
from socket import socket
from typing import Any

Head = dict[str, Any]

STARTED = b"!"
"""A child's first word, before any message; with it comes the handle by which it can be ended."""

ENDED = "ended"
"""In the head of what is said for a child that was ended: the signal."""

_SIZES = struct.Struct(">II")
_COUNT = struct.Struct(">I")
_MOST_HEAD_BYTES = 100_000
_MOST_BODY_BYTES = 400_000_000
_CHUNK_BYTES = 1 << 20


class Broken(Exception):
    """The other side is gone, or talks nonsense."""


def send_message(to: socket, head: Head, body: bytes = b"") -> None:
    words = json.dumps(head).encode()
    to.sendall(_SIZES.pack(len(words), len(body)) + words)
    if body:  # with none the message is whole, and who has answered it and gone cannot be sent even nothing
        to.sendall(body)


def receive_message(
    sender: socket, before_each_read: Callable[[], None] = lambda: None
) -> tuple[Head, bytes]:
    """A whole message, or Broken. `before_each_read` may set a timeout, or raise."""

    def read(size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            before_each_read()
            part = sender.recv(min(size - len(parts), _CHUNK_BYTES))
            if not part:
                raise Broken("the connection ended within a message")
            parts += part
        return bytes(parts)

    head_size, body_size = _SIZES.unpack(read(_SIZES.size))
    if head_size > _MOST_HEAD_BYTES or body_size > _MOST_BODY_BYTES:
        raise Broken("a message of an impossible size")
    try:
        head = json.loads(read(head_size))
    except (ValueError, RecursionError):
        raise Broken("a head that cannot be read") from None
    if not isinstance(head, dict):
        raise Broken("a head that is none")
    return head, read(body_size)


def packed(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as the one body of a message."""
    sizes = struct.pack(f">{len(parts)}I", *map(len, parts))
    return b"".join([_COUNT.pack(len(parts)), sizes, *parts])


def unpacked(body: bytes) -> list[bytes]:
    """Those byte strings, or Broken."""
    try:
        (count,) = _COUNT.unpack_from(body)
        sizes = struct.unpack_from(f">{count}I", body, _COUNT.size)
    except struct.error:
        raise Broken("a body that is cut off") from None
    at = _COUNT.size * (1 + count)
    if at + sum(sizes) != len(body):
        raise Broken("a body of another size than its parts")
    parts = []
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return parts
