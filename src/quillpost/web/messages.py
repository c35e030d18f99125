"""The sentences of pages: what was done, by its name, and what is wrong, by the code of the API's sentence."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from quillpost.core.errors import Message
from quillpost.rendering.text.variables import VARIABLE_NAMES

FLASH_MESSAGES: Final[Mapping[str, str]] = {
    # Signing in
    "signed_out": "You are signed out.",
    "too_many_codes": "Those were too many wrong codes. Sign in again.",
    "reset_asked": "If somebody has this e-mail here, a link is on its way.",
    "reset_unsent": "This service sends no mail. Ask whoever runs it for a link.",
    "password_reset": "Your password is set. Sign in with it.",
    "joined": "Welcome. You have joined {place}.",
    # A person's own page
    "name_changed": "Your name is changed.",
    "password_changed": "Your password is changed. All your other sessions have ended.",
    "second_factor_off": "The second factor is off.",
    "session_ended": "That session has ended.",
    "sessions_ended": "All your other sessions have ended.",
    # The account's own page
    "account_changed": "Saved. What you send from now on says so.",
    # People
    "invited": "The invitation is on its way.",
    "uninvited": "The invitation is taken back.",
    "member_changed": "The role is changed.",
    "member_removed": "That person is no longer in this account.",
    # API settings
    "token_revoked": "The token is revoked.",
    "token_gone": "That token is revoked already. Nothing is let in by it.",
    "client_changed": "The client is changed.",
    "client_deleted": "The client is deleted, and every app that was connected by it.",
    "app_disconnected": "The app is disconnected.",
    # The print room
    "batches_pooled": "Nothing waits for the cut-off any more: batches are made of it now.",
    "nothing_pooled": "Nothing waits for the cut-off, so there was nothing to bring forward.",
    "orders_rushed": "These orders go before all others now.",
    "orders_unrushed": "Nothing changed: these orders are in batches, or were rushed already.",
    "batch_printed": "The batch is marked as printed.",
    "batch_mailed": "The batch is marked as mailed. From now on the carrier's scans count.",
    "batch_acknowledged": "It is noted that the printer has the batch.",
    "pieces_spoiled": "The spoiled pieces are marked. They are given up, and not billed.",
    "pieces_reprinted": "The pieces are printed again in this batch. Those printed before are void.",
    "batch_retried": "The batch is tried again now.",
    "order_released": "The order is released.",
    "order_refused": "The order is refused. Its sender has the money back, and reads your reason.",
    "receiver_resumed": "The webhook is resumed. What has waited goes out now.",
    "jobs_retried": "They run again. Whatever fails once more comes back to this list.",
    "credit_given": "The credit is added.",
    "credit_taken": "The credit is taken out.",
    "brand_saved": "The brand is saved.",
    "brand_retired": "The brand is offered no more. Orders that have it go on.",
    "price_added": "The price is on the list.",
    "price_withdrawn": "The coming price is taken back.",
    # Webhooks
    "webhook_changed": "The webhook is changed.",
    "webhook_paused": "It is paused. Events wait until you resume it.",
    "webhook_resumed": "It is resumed. What has waited goes out now.",
    "webhook_deleted": "The webhook is deleted.",
    "webhook_tried": "The test is on its way.",
    "delivery_retried": "It goes out now.",
    "replay_begun": "It has begun: the events of that time go out once more.",
    "replay_empty": "Nothing happened in that time that this webhook is for, so nothing is sent.",
    # Automations
    "automation_made": "The automation is made.",
    "automation_changed": "The automation is changed.",
    "automation_on": "It is on. It mails to whoever is due from now on.",
    "automation_off": "It is off. Nobody is mailed by it.",
    "automation_deleted": "The automation is deleted. Orders that it made stay.",
    # The composer
    "composer_sent_test": "Sent, as a test: nothing is mailed, and nothing is billed.",
    "composer_scheduled_test": "Scheduled, as a test: nothing is mailed, and nothing is billed.",
    "composer_sent_live": "Sent. It is printed when its review is over; until then you can cancel it.",
    "composer_scheduled_live": "Scheduled. Until its day you can change or cancel it.",
    "origins_changed": "The sites that may show the composer are changed.",
    # Lists
    "list_made": "The list is made. Now put people on it.",
    "list_changed": "The list is changed.",
    "list_deleted": "The list is deleted.",
    "list_merged": "Everyone is on this list now. The other one is gone.",
    "doubles_removed": "The doubles are removed.",
    "no_doubles": "There were no doubles.",
    "list_key_made": "The list has a new key. The old one stops working now.",
    "recipient_added": "They are on the list.",
    "recipient_changed": "The person is changed.",
    "recipient_removed": "They are off the list.",
    "recipient_erased": "The person is erased. Nobody here knows of them any more.",
    "import_stopped": "The import is stopped. Nobody of the file is on the list.",
    "import_over": "The import was over before it could be stopped.",
    "radius_bought": "The addresses are bought, and on this list.",
    # Templates
    "message_saved": "The message is saved.",
    "message_deleted": "The message is deleted.",
    "style_made": "Your style is ready. Choose it in the composer.",
    "style_deleted": "The style is deleted.",
    "signature_saved": "The signature is saved.",
    "signature_deleted": "The signature is deleted.",
    "image_saved": "The image is saved.",
    "image_deleted": "The image is deleted.",
    # Sub accounts
    "sub_account_made": "The sub account is made.",
    "sub_account_changed": "The sub account is changed. Orders that were placed already keep what they had.",
    "sub_account_deleted": "The sub account is deleted. What it has mailed stays in the account.",
    # Orders
    "order_cancelled": "The order is cancelled. Nothing of it is printed.",
    "order_not_cancellable": "This order can no longer be cancelled: see below where it stands.",
    "order_changed": "The order is changed.",
    "order_as_it_was": "Nothing was different: the order is as it was.",
    "order_not_changeable": "This order can no longer be changed: see below where it stands.",
    "order_sent_again": "Sent again: this is the new order.",
    "giftcard_taken_back": "The gift card is taken back. Its value is credit again.",
    "giftcard_sent_anew": "The gift card is taken back, and this order brings another.",
    "giftcard_not_there": "This piece has no gift card that could be taken back.",
}
"""By the name that a URL carries: nobody can put words into our mouth. `{place}` is the reader's account."""

FIELD_LABELS: Final[Mapping[str, str]] = {
    "front_image_url": "the picture on the front",
    "image_template": "the picture on the front",
    "custom_background_image": "the picture under the handwriting",
    "custom_background_url": "the picture under the handwriting",
    "additional_pages": "the PDF",
    "additional_pages_url": "the PDF",
    "pdf_only_url": "the PDF",
    "message_template": "the saved message",
    "sub_account_id": "the sub account",
    "mailing_list_ids": "the list",
    "landing_page_url": "the page to visit first",
    "qrcode_url": "the link of the QR code",
    "giftcard_brand_code": "the gift card",
    "giftcard_amount": "the amount",
}
"""What a source of pictures, PDFs and links is called in a sentence."""


def page_text(message: str) -> str:
    """What people read: the page's own sentence for the code, or the API's where that suits everybody."""
    if not isinstance(message, Message):
        return message
    sentence = PAGE_SENTENCES.get(message.code)
    if sentence is None:
        return str(message)
    return sentence if isinstance(sentence, str) else sentence(**message.params)


def page_errors(errors: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {field: [page_text(message) for message in messages] for field, messages in errors.items()}


def _source_text(field: str, part: str) -> str:
    label = FIELD_LABELS.get(field, field)
    return f"{label} ({page_text(part)})" if part else label


def _part_text(field: str) -> str:
    label = "background" if field.endswith("_background_url") else field
    return f"its {FIELD_LABELS.get(field, label).removeprefix('the ')}"


def _file_text(file: str, note: str, separator: str) -> str:
    label = page_text(file)
    return f"{label[:1].upper()}{label[1:]}{separator}{note}"


def _picture_not_personal(is_search: bool) -> str:
    audience = "a search around an address" if is_search else "the list"
    return f"With {audience} the picture is the same for everyone: its URL takes no variables."


def _suggest_variables(names: Sequence[str]) -> str:
    """For each unknown variable the one that was meant: all that exist would be a wall of words."""
    return " ".join(_suggest_variable(name) for name in names)


def _suggest_variable(name: str) -> str:
    nearest = get_close_matches(name.upper(), VARIABLE_NAMES, n=1)
    return f"%{name}% is not known." + (f" Did you mean %{nearest[0]}%?" if nearest else "")


PAGE_SENTENCES: Final[Mapping[str, str | Callable[..., str]]] = {
    # What is missing
    "audience_missing": "Choose who gets it.",
    "message_missing": "Write a message.",
    "message_or_pdf_missing": "Write a message, or give a PDF.",
    "front_missing": "Choose an image, or write a message of your own.",
    "return_address_missing": "Live mail needs a return address. Give one here, or in the settings.",
    "gift_brand_missing": "Choose the gift card that it brings.",
    "gift_amount_missing": "Choose the gift card that it brings.",
    "content_or_background_missing": "Write the message, or give a background image.",
    "content_or_pdf_missing": "Write the message, or give the address of a PDF.",
    "automation_list_missing": "Choose the list whose people are mailed. Only mail after a scan can do without.",
    "automation_date_missing": "Choose which day it is.",
    # What cannot be used
    "unknown_variable": _suggest_variables,
    "picture_not_personal": _picture_not_personal,
    "search_address_unknown": (
        "This address is not known here, and has no ZIP code that says where it is: write it whole on one line,"
        " as 12 Main St, Austin, TX 78701."
    ),
    "search_no_match": lambda miles: (
        f"No address within {miles} miles matches this search: allow more kinds of people, or search around another"
        " address."
    ),
    "search_recently_mailed": (
        "All whom this search finds had the same piece less than 36 hours ago: search around another address, or"
        " choose to mail to them all the same."
    ),
    "city_apart": "Outside the US and Canada give the city and the postal code apart.",
    "not_suppression_list": "Only a suppression list bars anyone: make it one, or leave this out.",
    "suppress_by_differs": lambda start: f"{start} let both bar by the same first.",
    "opt_out_list": (
        "The service keeps on this list whoever asked for no more mail. To bar others, put them on a suppression"
        " list of your own."
    ),
    # What deserves a look
    "file_note": lambda file, note: _file_text(file, note, ": "),
    "picture_soft": lambda file, note: _file_text(file, note, " "),
    "ink_hard_to_read": lambda surface, contrast: f"The ink is hard to read {page_text(surface)} {contrast}",
    # Orders of earlier releases have no advice stored.
    "on_picture": lambda picture, advice="choose another color or another picture.": (
        f"on {page_text(picture)}: {advice}"
    ),
    "settings_without_effect": lambda start: f"{start} its size and manner can’t be chosen.",
    "recently_mailed": lambda start: f"{start} Under “More” you can choose to mail to them all the same.",
    # Parts of sentences
    "noted": lambda message, note: f"{page_text(message)} ({page_text(note)})",
    "source": _source_text,
    "source_part": _part_text,
    "list_qr_code": lambda list_id: f"the link of the QR code of list {list_id}",
    "part_for_recipient": lambda part, recipient: f"{page_text(part)}, {recipient}",
}
"""By code, for every sentence of the API that names a field of it, or says what only programs do."""
