"""All that we ask of the outside world. Each port has its contract tests; `wiring.py` picks the adapters."""

from quillpost.ports.addresses import (
    AddressAnswer,
    AddressVerifier,
    AskedAddress,
    AskedPerson,
    Moved,
    PostalParts,
    VerifierDown,
)
from quillpost.ports.carriers import (
    CarrierDown,
    CarrierFeed,
    CarrierInbox,
    CarrierReport,
    FileBarred,
    SetAside,
    TooMuch,
)
from quillpost.ports.files import Fetched, Fetcher, FetchFailed, FileMissing, FileStore
from quillpost.ports.giftcards import CardAsked, GiftCard, GiftcardIssuer, IssuerDown, NoCard
from quillpost.ports.leads import Lead, LeadsAsked, LeadsDown, LeadsProvider, Resident
from quillpost.ports.messages import (
    Message,
    NeverTaken,
    Notifier,
    NotifierDown,
    NotTakenNow,
    Poster,
    PostOutcome,
)
from quillpost.ports.printing import PartnerDown, PrintJob, PrintPartner, PrintProgress
from quillpost.ports.worlds import Gap, World

__all__ = [
    "AddressAnswer",
    "AddressVerifier",
    "AskedAddress",
    "AskedPerson",
    "CardAsked",
    "CarrierDown",
    "CarrierFeed",
    "CarrierInbox",
    "CarrierReport",
    "FetchFailed",
    "Fetched",
    "Fetcher",
    "FileBarred",
    "FileMissing",
    "FileStore",
    "Gap",
    "GiftCard",
    "GiftcardIssuer",
    "IssuerDown",
    "Lead",
    "LeadsAsked",
    "LeadsDown",
    "LeadsProvider",
    "Message",
    "Moved",
    "NeverTaken",
    "NoCard",
    "NotTakenNow",
    "Notifier",
    "NotifierDown",
    "PartnerDown",
    "PostOutcome",
    "PostalParts",
    "Poster",
    "PrintJob",
    "PrintPartner",
    "PrintProgress",
    "Resident",
    "SetAside",
    "TooMuch",
    "VerifierDown",
    "World",
]
