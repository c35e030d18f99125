"""Text messages through Twilio, or another service with its API: `POST {base}/2010-04-01/Accounts/{id}/Messages.json`.
Twilio knows no repeats: a message whose response was lost is sent again. Others read the `Idempotency-Key`."""

import json
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlencode

from quillpost.core.errors import NotReady
from quillpost.core.text import is_loopback_host
from quillpost.integrations.email.smtp import build_message_id, split_setting_url, to_one_line
from quillpost.notifications.ports import (
    MessageDeferred,
    MessageRejected,
    NotifierDown,
    OutgoingMessage,
    PostResult,
    WebhookClient,
)

SETTING = "QUILLPOST_SMS"
MESSAGING_SERVICE_PREFIX = "MG"  # of a messaging service's id
WRONG_TOKEN_STATUS = 401
ACCOUNT_ERROR_STATUSES = {402, 403, 404, 405, 407}  # no money, no permission, or a wrong URL
RETRY_STATUSES = {408, 425, 429}
ACCOUNT_ERROR_CODES = {"10001", "20003", "20005", "20006", "20008", "20404", "30404", "90010"}
SENDER_ERROR_CODES = {
    "21212", "21267", "21401", "21601", "21603", "21606", "21607", "21611", "21659", "21660", "21661",
    "21701", "21703", "21704", "21705", "30127",
}  # fmt: skip
OPERATOR_ERROR_CODES = ACCOUNT_ERROR_CODES | SENDER_ERROR_CODES
"""Twilio's codes for what only the operator can fix. Some also mean that the sender does not reach one country: that
message waits, while others go on."""

MESSAGE_ERROR_CODES = {
    "21211", "21265", "21266", "21408", "21421", "21602", "21604", "21608", "21610", "21612", "21614",
    "21617", "21635",
}  # fmt: skip
"""Codes about this message or recipient, with any status: the next may be accepted."""


@dataclass(frozen=True, slots=True)
class SmsService:
    """`sender` is a number, a name, or a messaging service's id."""

    base_url: str
    account: str
    token: str
    sender: str


class TwilioNotifier:
    def __init__(self, service: SmsService, poster: WebhookClient) -> None:
        self._service = service
        self._poster = poster
        account = quote(service.account, safe="")
        self._url = f"{service.base_url}/2010-04-01/Accounts/{account}/Messages.json"
        credentials = b64encode(f"{service.account}:{service.token}".encode()).decode("ascii")
        self._authorization = f"Basic {credentials}"

    async def send(self, message: OutgoingMessage) -> None:
        sender = self._service.sender
        form = {
            "To": message.to,
            "MessagingServiceSid" if sender.startswith(MESSAGING_SERVICE_PREFIX) else "From": sender,
            "Body": message.text,
        }
        headers = {
            "Authorization": self._authorization,
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "Idempotency-Key": build_message_id(message.key),
        }
        outcome = await self._poster.post(
            self._url, method="POST", headers=headers, body=urlencode(form).encode("ascii")
        )
        _check_outcome(outcome)

    async def close(self) -> None:
        await self._poster.close()


def _check_outcome(outcome: PostResult) -> None:
    status = outcome.status
    if status is None:
        raise NotifierDown(outcome.error or "The text message service did not answer.")
    if 200 <= status < 300:
        return
    code, sentence = _read_error(outcome.body)
    reason = to_one_line(f"{status} {sentence}")
    # It would refuse every message: the operator has to look, and nothing is lost meanwhile.
    if (
        status == WRONG_TOKEN_STATUS
        or status < 400
        or (status in ACCOUNT_ERROR_STATUSES and code not in MESSAGE_ERROR_CODES)
    ):
        raise NotifierDown(f"The text message service lets nobody in: {reason}")
    if code in OPERATOR_ERROR_CODES:
        raise NotifierDown(f"The text message service takes nothing from this sender or account: {reason}")
    if status in RETRY_STATUSES or status >= 500:
        raise MessageDeferred(f"The text message service cannot take it now: {reason}", retry_after=outcome.retry_after)
    raise MessageRejected(f"The text message service refused it: {reason}")


def _read_error(body: str) -> tuple[str, str]:
    try:
        payload = json.loads(body)
        return str(payload.get("code")), str(payload["message"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "", body


def parse_sms_service(url: str, *, token: str | None, sender: str | None) -> SmsService:
    parsed = split_setting_url(url, SETTING)
    if parsed.scheme not in ("http", "https") or not parsed.hostname or not parsed.username or parsed.query:
        raise NotReady(f"{SETTING} must be the service's address with the account's id: https://ID@host.")
    if parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a password: set {SETTING}_TOKEN.")
    if parsed.scheme == "http" and not is_loopback_host(parsed.hostname):
        raise NotReady(f"{SETTING} would send the token unsealed: use https://.")
    if not token or not sender:
        raise NotReady(f"{SETTING} needs {SETTING}_TOKEN and {SETTING}_FROM.")
    base = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}{parsed.path.rstrip('/')}"
    return SmsService(base, unquote(parsed.username), token, sender)
