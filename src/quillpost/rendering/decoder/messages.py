"""Messages between the service and its decoder: JSON and bytes only, as the decoder may be compromised."""

import json
import struct
from collections.abc import Callable, Sequence
from socket import socket
from typing import Any

MessageHead = dict[str, Any]

STARTED_SIGNAL = b"!"  # a child's first byte; its pidfd comes with it
ENDED_KEY = "ended"  # in the head: the signal that ended the child
_SIZES_FORMAT = struct.Struct(">II")
_COUNT_FORMAT = struct.Struct(">I")
_MAX_HEAD_BYTES = 100_000
_MAX_BODY_BYTES = 400_000_000
_CHUNK_BYTES = 1 << 20


class DecoderProtocolError(Exception):
    """The other side is gone, or sent something invalid."""


def send_message(connection: socket, head: MessageHead, body: bytes = b"") -> None:
    encoded_head = json.dumps(head).encode()
    connection.sendall(_SIZES_FORMAT.pack(len(encoded_head), len(body)) + encoded_head)
    if body:  # without one the message is complete, and the other side may be gone already
        connection.sendall(body)


def receive_message(
    connection: socket, before_each_read: Callable[[], None] = lambda: None
) -> tuple[MessageHead, bytes]:
    """A whole message, or DecoderProtocolError; `before_each_read` may set a timeout, or raise."""

    def read(size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            before_each_read()
            part = connection.recv(min(size - len(parts), _CHUNK_BYTES))
            if not part:
                raise DecoderProtocolError("the connection ended within a message")
            parts += part
        return bytes(parts)

    head_size, body_size = _SIZES_FORMAT.unpack(read(_SIZES_FORMAT.size))
    if head_size > _MAX_HEAD_BYTES or body_size > _MAX_BODY_BYTES:
        raise DecoderProtocolError("a message of an impossible size")
    try:
        head = json.loads(read(head_size))
    except (ValueError, RecursionError):
        raise DecoderProtocolError("a head that cannot be read") from None
    if not isinstance(head, dict):
        raise DecoderProtocolError("a head that is not an object")
    return head, read(body_size)


def pack_parts(parts: Sequence[bytes]) -> bytes:
    sizes = struct.pack(f">{len(parts)}I", *map(len, parts))
    return b"".join([_COUNT_FORMAT.pack(len(parts)), sizes, *parts])


def unpack_parts(body: bytes) -> list[bytes]:
    try:
        (count,) = _COUNT_FORMAT.unpack_from(body)
        sizes = struct.unpack_from(f">{count}I", body, _COUNT_FORMAT.size)
    except struct.error:
        raise DecoderProtocolError("a body that is cut off") from None
    offset = _COUNT_FORMAT.size * (1 + count)
    if offset + sum(sizes) != len(body):
        raise DecoderProtocolError("a body of another size than its parts")
    parts = []
    for size in sizes:
        parts.append(body[offset : offset + size])
        offset += size
    return parts
