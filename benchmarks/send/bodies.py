"""What is sent: calls to people who get nothing twice, with a front that waits in the account's templates."""

import io
import json
from itertools import count
from typing import Any

from PIL import Image

from benchmarks.compose.recipients import MESSAGE, PHOTO_SIZE, recipient
from benchmarks.send.service import Service

_BOUNDARY = "front"


class Bodies:
    """Each body asked for goes to people that no other went to."""

    def __init__(self, service: Service) -> None:
        self._template_id = _upload_front(service)
        self._numbers = count()

    def to(self, how_many: int) -> bytes:
        people = [_person(next(self._numbers)) for _ in range(how_many)]
        body = {"recipients": people, "message": MESSAGE, "image_template_id": self._template_id}
        return json.dumps(body).encode()


def _person(number: int) -> dict[str, str]:
    one = recipient(number)
    return {
        "name": one.name,
        "address": f"{one.address} Unit {number}",
        "city": one.city,
        "province": one.state,
        "postal_code": one.postal_code,
    }


def _upload_front(service: Service) -> int:
    photo = io.BytesIO()
    Image.effect_noise(PHOTO_SIZE, 40).convert("RGB").save(photo, "JPEG", quality=85)
    parts = [
        _part('name="type"', b"postcard"),
        _part('name="name"', b"Front"),
        _part('name="image"; filename="front.jpg"', photo.getvalue(), "image/jpeg"),
        f"--{_BOUNDARY}--\r\n".encode(),
    ]
    answer = service.post("/image-templates", b"".join(parts), f"multipart/form-data; boundary={_BOUNDARY}")
    template: dict[str, Any] = json.loads(answer)
    return int(template["id"])


def _part(name: str, content: bytes, content_type: str = "text/plain") -> bytes:
    head = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {name}\r\nContent-Type: {content_type}\r\n\r\n"
    return head.encode() + content + b"\r\n"
