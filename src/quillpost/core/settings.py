"""Every setting, from the environment: `QUILLPOST_` and the name in capitals."""

from datetime import time
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _networks(value: str) -> str:
    """Addresses and networks with commas, each as it is usually written."""
    texts = filter(None, map(str.strip, value.split(",")))
    try:
        return ",".join(str(ip_network(text, strict=False) if "/" in text else ip_address(text)) for text in texts)
    except ValueError as error:
        raise ValueError(f"name each proxy by its address or network, as 10.0.0.0/8 ({error})") from None


def reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="QUILLPOST_", extra="ignore")

    # Where it runs
    home: Path = Field(Path("var"), description="Folder for the database, files and keys.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8025, ge=1, le=65_535, description="Port to listen on.")
    base_url: str | None = Field(None, description="How the world reaches us; QR codes point here.")
    trusted_proxies: Annotated[str, AfterValidator(_networks)] = Field(
        "",
        description="Proxies whose X-Forwarded-For and -Proto are believed, by address or network, with "
        "commas; without it, none.",
    )
    log_format: Literal["console", "json"] = Field("console", description="How log lines look.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")

    # What it stands on
    database_url: str | None = Field(
        None, description="A PostgreSQL to use; without it, one is started in the home folder."
    )
    postgres_bin: Path | None = Field(None, description="Folder of PostgreSQL programs to use.")
    secret_key: SecretStr | None = Field(
        None,
        description="32 bytes as base64 that seal secrets; without it, a file in the home folder. "
        "Several with spaces: the first seals, every one opens.",
    )
    files_bucket: str | None = Field(
        None, description="An S3 bucket for files; without it, a folder in the home folder."
    )
    files_region: str = Field("us-east-1", description="The bucket's region.")
    files_endpoint: str | None = Field(None, description="An S3-compatible service's address.")
    files_access_key_id: str | None = Field(None, description="The bucket's key id.")
    files_secret_access_key: SecretStr | None = Field(None, description="The bucket's secret key.")

    # Work
    job_concurrency: int = Field(4, ge=1, description="Jobs that one process runs at a time.")
    job_heartbeat_seconds: float = Field(5, gt=0, description="How often a worker says it is alive.")
    job_stall_seconds: float = Field(
        20, gt=0, description="A worker silent for so long is dead; others take over its jobs."
    )
    webhook_seconds: float = Field(15, gt=0, description="Time a webhook receiver has to answer.")

    # Orders
    review_seconds: int = Field(3_600, ge=0, description="How long a live order can be cancelled.")
    test_review_seconds: int = Field(10, ge=0, description="The same in testing mode.")
    review_dpi: int = Field(
        75, ge=0, le=300, description="An order with a picture that prints at fewer dots an inch is paused."
    )
    review_contrast: float = Field(
        1.7,
        ge=1,
        le=21,
        description="The same where the handwriting stands out less from its paper or picture: 1 is not at"
        " all, 21 is black on white.",
    )
    review_unfilled_percent: int = Field(
        50, ge=0, le=100, description="The same where more of its pieces have nothing for a variable."
    )
    review_undeliverable_percent: int = Field(
        50, ge=0, le=100, description="The same where more of its people cannot be delivered to."
    )
    test_journey_seconds: float = Field(16, gt=0, description="How long a piece takes through the simulated mail.")
    test_seed: int = Field(1, description="What the delays and losses of testing mode are made from.")
    test_losses: float = Field(
        0, ge=0, le=1, description="Share of the simulated carrier's scans that is missed, late or repeated."
    )
    qr_valid_days: int | None = Field(
        None, ge=1, description="Days after a piece was made at which its QR code expires; without it, never."
    )
    opt_out_line: bool = Field(
        True, description="Each piece says in small print where its reader can ask for no more mail."
    )
    mailer_id: str | None = Field(
        None, pattern=r"^(\d{6}|\d{9})$", description="The postal service's number for this mailer."
    )
    credit_control: bool = Field(False, description="A live order must be covered by its account's credit.")
    full_service: bool = Field(False, description="Barcodes say full service: set it with the postal service's leave.")
    print_cutoff: time | None = Field(
        None, description="Time of day, as 16:00, at which live pieces are pooled; without it, at once."
    )
    timezone: str = Field("UTC", description="Where that time of day is, as America/New_York.")
    permit_first: str | None = Field(None, description="Permit imprint of first class, lines with |.")
    permit_standard: str | None = Field(None, description="Permit imprint of standard mail, lines with |.")

    # Who prints
    print_partner: str | None = Field(
        None, description="Who prints live mail: folder, file:///path, sftp://user@host/path or https://host."
    )
    print_partner_name: str = Field(
        "partner",
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
        description="The partner's name, where it calls back: /hooks/print/NAME.",
    )
    print_secret: SecretStr | None = Field(
        None, description="whsec_ and base64: signs what we and the partner say; two with a space to change it."
    )
    leads: str | None = Field(
        None, description="Who sells addresses for radius searches: https://host; without it, those imported."
    )
    leads_secret: SecretStr | None = Field(None, description="whsec_ and base64: signs what we ask of that provider.")
    giftcards: str | None = Field(
        None,
        description="Who issues live gift cards: tremendous:https://host or tango:https://host; without it, "
        "those that were loaded.",
    )
    giftcards_key: SecretStr | None = Field(
        None, description="The key that the issuer lets us in with; of Tango, PLATFORM:KEY."
    )
    giftcards_account: str | None = Field(
        None,
        description="What cards are paid from there: a funding source of Tremendous, else its balance; of "
        "Tango, CUSTOMER/ACCOUNT.",
    )
    sftp_key: Path | None = Field(None, description="Private key for SFTP.")
    sftp_password: SecretStr | None = Field(None, description="Password for SFTP; with a key, the key's passphrase.")
    sftp_known_hosts: Path | None = Field(
        None, description="Host keys of the SFTP servers that are believed, as OpenSSH writes them."
    )

    # Who carries
    carrier_folder: str | None = Field(
        None, description="Where files of carrier scans are dropped: file:///path or sftp://user@host/path."
    )
    carrier_token: SecretStr | None = Field(
        None, description="Opens /hooks/carrier/iv-mtr to whoever says it: as Bearer, or as Basic's password."
    )
    infer_delivery_days: int | None = Field(
        None, ge=1, description="Days after Processed for Delivery at which a piece is taken as delivered."
    )
    infer_unseen_days: int | None = Field(
        None, ge=1, description="The same after the last that was heard of it at all."
    )
    reroute_ends_days: int = Field(
        30, ge=1, description="Days after which a re-routed piece that is not seen again stays so."
    )

    # Who verifies addresses
    verifier: str | None = Field(
        None, description="A gateway to a licensed CASS and NCOA service, as https://host; without it, nobody is asked."
    )
    verifier_key: SecretStr | None = Field(None, description="The key that it lets us in with.")
    verifier_appends: bool = Field(False, description="It also finds the address of somebody whose e-mail is known.")
    verified_days: int = Field(
        90, ge=1, le=365, description="Days for which its answers are kept, and then asked for again."
    )
    verify_wait_seconds: int = Field(
        600, ge=0, description="How long a live order that is due waits for its answers, then goes on."
    )

    # Notifications
    smtp: str | None = Field(
        None,
        description="Mail server for notices: smtp://user@host:587 (STARTTLS), smtps://user@host:465 or "
        "smtp+plain://host:25; without it, they are written to the standard output.",
    )
    smtp_password: SecretStr | None = Field(None, description="The user's password there.")
    smtp_ca: Path | None = Field(
        None, description="PEM file of authorities to believe for its certificate; without it, the system's."
    )
    mail_from: str | None = Field(
        None, description="Who notices come from, as Quillpost <mail@example.com>; needed with a mail server."
    )
    sms: str | None = Field(
        None,
        description="Text message service that speaks as Twilio does, with the account's id: "
        "https://ID@api.twilio.com; without it, texts are written to the standard output.",
    )
    sms_token: SecretStr | None = Field(None, description="The account's token there.")
    sms_from: str | None = Field(None, description="The number, or messaging service, that texts come from.")
    digest_minutes: int = Field(
        15, ge=0, description="Minutes for which further scans of an order are gathered into one notice."
    )

    # The printed page
    templates: Path | None = Field(None, description="A TOML file that moves things on the pieces, to match a printer.")
    output_profile: Path | None = Field(
        None, description="The printer's ICC profile; without it, print files are made for sRGB."
    )
    faces_folder: Path | None = Field(
        None, description="Folder of prepared typefaces, which may be shared; without it, one in the home folder."
    )
    font_packages: Path | None = Field(
        None, description="A node_modules folder with page scripts and typefaces for kanji and emoji; ours by default."
    )

    # Limits
    calls_a_minute: int = Field(
        120, ge=1, description="API calls in a minute: of a token, of an app, or of a person's pages."
    )
    calls_at_once: int = Field(
        4, ge=1, le=16, description="Requests of one account that a process works on at a time; others wait."
    )
    wait_seconds: float = Field(2, ge=0, description="How long a request waits for its turn before it is told 503.")
    hook_calls_a_minute: int = Field(600, ge=1, description="Calls to /hooks/lists with one list's key in a minute.")
    scans_a_minute: int = Field(
        30, ge=1, description="Scans of one piece that a process keeps in a minute; others are only led on."
    )
    webhooks: int = Field(100, ge=1, description="Subscriptions to events of one account.")
    body_bytes: int = Field(20_000_000, ge=1_000, description="Largest request body.")
    body_nodes: int = Field(100_000, ge=100, description="Objects, arrays and values in arrays that one body may hold.")
    body_keys: int = Field(200_000, ge=100, description="Keys that the objects of one body may have, all together.")
    object_keys: int = Field(10_000, ge=100, description="Keys that one object of a body may have.")
    body_depth: int = Field(32, ge=8, le=100, description="Objects and arrays that may be within each other in a body.")
    key_bytes: int = Field(1_000, ge=100, description="Longest key in a body, or name of a form's field.")
    text_bytes: int = Field(
        1_000_000, ge=10_000, description="Longest text in a body, or field of a form without files."
    )
    unknown_keys: int = Field(1_000, ge=10, description="Different keys in one body that may be ones we do not know.")
    import_bytes: int = Field(500_000_000, ge=1_000, description="Largest file of people that a list is filled from.")
    keep_imports_days: int = Field(
        30, ge=1, description="Days after which the file and the rejected rows of an import are removed."
    )
    inline_recipients: int = Field(5_000, ge=1, description="Recipients in one call.")
    message_characters: int = Field(5_000, ge=1, description="Longest message.")
    metadata_bytes: int = Field(8_192, ge=2, description="Largest metadata, as compact JSON.")
    items_per_page: int = Field(100, ge=1, description="Most rows of one page.")
    recipients_per_page: int = Field(10_000, ge=1, description="Most rows of one page of a list's recipients.")

    legacy_fields: bool = Field(
        False,
        description="For old clients: giftcard_amount_in_cents is taken for giftcard_amount, which wins when"
        " both are given.",
    )
    code_seconds: int = Field(60, ge=10, le=600, description="How long a code of OAuth is good.")
    access_token_days: int = Field(30, ge=1, le=365, description="Days for which an app's access token is good.")
    refresh_token_days: int = Field(365, ge=1, le=3_650, description="Days for which an app's refresh token is good.")

    # How long what is kept
    keep_people_days: int | None = Field(
        None, ge=1, description="Days after a piece's end at which its recipient is forgotten; else never."
    )
    keep_facts_days: int | None = Field(
        None, ge=90, description="Days, 90 or more, for which what happened to an ended order is kept; else for ever."
    )
    keep_visits_days: int | None = Field(
        None, ge=1, description="Days for which single scans of QR codes are kept; else for ever."
    )
    keep_carrier_scans_days: int | None = Field(
        None, ge=1, description="Days for which a carrier's scans of ended pieces are kept; else for ever."
    )
    keep_mailed_days: int | None = Field(
        None, ge=731, description="Days, 731 or more, for which automations know whom they mailed; else for ever."
    )
    keep_pictures_days: int | None = Field(
        None, ge=1, description="Days after an order's end at which its pictures and PDFs go; else never."
    )
    keep_print_files_days: int | None = Field(
        None, ge=1, description="Days after a batch was mailed at which its print files go; else never."
    )
    keep_giftcard_prints_days: int = Field(
        14, ge=1, description="Days after a batch of gift cards was mailed at which its print file goes."
    )
    keep_audit_days: int | None = Field(
        None, ge=90, description="Days, 90 or more, for which the audit log is kept; else for ever."
    )
    keep_deliveries_days: int = Field(
        30, ge=7, description="Days for which what webhooks were told is kept, and what waits for them."
    )
    keep_notices_days: int = Field(
        30, ge=4, description="Days for which notices that were sent, or given up, are kept."
    )
    keep_stored_sends_days: int = Field(
        90, ge=1, description="Days for which stored sends are kept after the last look at them."
    )
    keep_jobs_days: int = Field(3, ge=1, description="Days for which jobs that are done are kept.")

    # Safety
    allow_private_urls: bool = Field(False, description="Development only: creatives and webhooks may be on loopback.")
    allowed_hosts: str | None = Field(
        None, description="Private places that creatives and webhooks may be at, as localhost:3000, with commas."
    )
    receiver: bool = Field(False, description="Development only: a page that subscribes to events and shows them.")
    metrics_token: SecretStr | None = Field(
        None, description="Bearer token for /metrics, beside operators' own tokens."
    )
