"""Text messages through a service that speaks as Twilio does: `POST {base}/2010-04-01/Accounts/{id}/
Messages.json` with a form, and the account's id and token as Basic. A few other services take the same.

Twilio itself knows no repeats: a message whose answer was lost is sent again. Those that know them read the
`Idempotency-Key`.
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from quillpost.integrations.email.smtp import identity, one_line
from quillpost.notifications.ports import Message, NeverTaken, NotifierDown, NotTakenNow, Poster, PostOutcome

SERVICE = "MG"
"""How the id of a messaging service begins, which picks the number that a message comes from."""

TOKEN_IS_WRONG = 401
CLOSED = {402, 403, 404, 405, 407}
"""An account that has no money or may not send, or an address that is not the service's."""

COME_BACK = {408, 425, 429}

OUR_ACCOUNT = {"10001", "20003", "20005", "20006", "20008", "20404", "30404", "90010"}
OUR_SENDER = {
    "21212", "21267", "21401", "21601", "21603", "21606", "21607", "21611", "21659", "21660", "21661",
    "21701", "21703", "21704", "21705", "30127",
}  # fmt: skip
OURS = OUR_ACCOUNT | OUR_SENDER
"""Codes of Twilio's for what only the operator can mend. A few of the sender's also mean that it does not
reach this one country: that message then waits, and those to others go on between."""

THEIRS = {
    "21211", "21265", "21266", "21408", "21421", "21602", "21604", "21608", "21610", "21612", "21614",
    "21617", "21635",
}  # fmt: skip
"""Codes for this message or whom it is for, with whatever status they come: the next may be taken."""


@dataclass(frozen=True, slots=True)
class TextService:
    """`sender` is a number, a name, or a messaging service's id."""

    base_url: str
    account: str
    token: str
    sender: str


class TwilioNotifier:
    def __init__(self, service: TextService, poster: Poster) -> None:
        self._service = service
        self._poster = poster
        account = quote(service.account, safe="")
        self._url = f"{service.base_url}/2010-04-01/Accounts/{account}/Messages.json"
        key = b64encode(f"{service.account}:{service.token}".encode()).decode("ascii")
        self._authorization = f"Basic {key}"

    async def send(self, message: Message) -> None:
        sender = self._service.sender
        form = {
            "To": message.to,
            "MessagingServiceSid" if sender.startswith(SERVICE) else "From": sender,
            "Body": message.text,
        }
        headers = {
            "Authorization": self._authorization,
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "Idempotency-Key": identity(message.key),
        }
        outcome = await self._poster.post(
            self._url, method="POST", headers=headers, body=urlencode(form).encode("ascii")
        )
        _check(outcome)

    async def close(self) -> None:
        await self._poster.close()


def _check(outcome: PostOutcome) -> None:
    status = outcome.status
    if status is None:
        raise NotifierDown(outcome.error or "The text message service did not answer.")
    if 200 <= status < 300:
        return
    code, sentence = _read(outcome.body)
    said = one_line(f"{status} {sentence}")
    # It would say so of every message: the operator has to look, and nothing is lost meanwhile.
    if status == TOKEN_IS_WRONG or status < 400 or (status in CLOSED and code not in THEIRS):
        raise NotifierDown(f"The text message service lets nobody in: {said}")
    if code in OURS:
        raise NotifierDown(f"The text message service takes nothing from this sender or account: {said}")
    if status in COME_BACK or status >= 500:
        raise NotTakenNow(
            f"The text message service cannot take it now: {said}", retry_after=outcome.retry_after
        )
    raise NeverTaken(f"The text message service refused it: {said}")


def _read(body: str) -> tuple[str, str]:
    """The service's code for what is wrong, where it gave one, and its own sentence."""
    try:
        told = json.loads(body)
        return str(told.get("code")), str(told["message"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "", body
