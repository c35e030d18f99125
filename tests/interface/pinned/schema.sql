create table account_credit (
    account_id bigint not null,
    cents bigint not null,
    mode text not null,
    shard integer not null,
    sub_account_id bigint not null
);
create table account_spending (
    account_id bigint not null,
    cents bigint not null,
    mode text not null,
    month date not null,
    shard integer not null,
    sub_account_id bigint not null
);
create table accounts (
    company text,
    created_at timestamp with time zone not null,
    email text not null,
    embed_origins text[] default '{}'::text[] not null,
    id bigint generated always as identity not null,
    is_operator boolean default false not null,
    name text not null,
    return_address text,
    return_address2 text,
    return_city text,
    return_name text,
    return_postal_code text,
    return_state text,
    test_mode boolean default false not null,
    updated_at timestamp with time zone not null
);
create table address_passes (
    begun_at timestamp with time zone,
    done_at timestamp with time zone,
    last_id bigint not null,
    leased_until timestamp with time zone,
    name text not null,
    trouble text,
    trouble_at timestamp with time zone
);
create table address_verdicts (
    address_key text not null,
    answered_at timestamp with time zone not null,
    deliverability text,
    dpv text,
    expires_at timestamp with time zone not null,
    moved_key text,
    mover bytea not null,
    reasons text[] not null,
    standard text[]
);
create table alembic_version (
    version_num character varying(32) not null
);
create table audit_log (
    about jsonb default '{}'::jsonb not null,
    account_id bigint not null,
    act text not null,
    actor text not null,
    at timestamp with time zone not null,
    id bigint generated always as identity not null,
    network text,
    person_id bigint,
    sub_account_id bigint,
    token_id bigint
);
create table automation_due (
    automation_id bigint not null,
    id bigint generated always as identity not null,
    item_id bigint,
    recipient_id bigint,
    since timestamp with time zone not null,
    year integer
);
create table automation_sent (
    at timestamp with time zone not null,
    automation_id bigint not null,
    order_id bigint not null,
    person_key text not null,
    recipient_id bigint,
    year integer not null
);
create table automations (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    daily_limit integer not null,
    date_field text,
    days_offset integer not null,
    enabled boolean not null,
    enabled_at timestamp with time zone,
    enabled_on date,
    failing_since timestamp with time zone,
    held_until timestamp with time zone,
    id bigint generated always as identity not null,
    image_template_id bigint,
    last_error text,
    last_error_at timestamp with time zone,
    last_order_id bigint,
    last_sent_at timestamp with time zone,
    mailing_list_id bigint,
    message_template_id bigint,
    mode text not null,
    name text not null,
    next_at timestamp with time zone not null,
    piece text not null,
    send text not null,
    sent_count bigint default 0 not null,
    sub_account_id bigint,
    tries integer default 0 not null,
    trigger text not null,
    updated_at timestamp with time zone not null
);
create table barred_digests (
    account_id bigint not null,
    at timestamp with time zone not null,
    digest bytea not null,
    id bigint generated always as identity not null,
    kind text not null,
    sub_account_id bigint
);
create table batch_files (
    batch_id bigint not null,
    is_secret boolean default false not null,
    name text not null,
    sha256 bytea not null,
    size bigint not null
);
create table batches (
    acknowledged_at timestamp with time zone,
    composed_at timestamp with time zone,
    created_at timestamp with time zone not null,
    first_serial bigint,
    handed_at timestamp with time zone,
    id bigint generated always as identity not null,
    indicia text[],
    item_count integer not null,
    mail_class text not null,
    mailed_at timestamp with time zone,
    mailer_id text,
    mode text not null,
    opt_out text,
    partner text,
    piece text not null,
    printed_at timestamp with time zone,
    qr_base text,
    reprint_of bigint,
    rush boolean default false not null,
    settled_at timestamp with time zone,
    status text not null,
    stock text default ''::text not null,
    trouble text,
    trouble_at timestamp with time zone,
    void_count integer default 0 not null
);
create table carrier_scans (
    digest bytea not null,
    id bigint generated always as identity not null,
    item_id bigint,
    phase text not null,
    place text,
    raw jsonb not null,
    received_at timestamp with time zone not null,
    scanned_at timestamp with time zone not null,
    tracking text not null
);
create table deliveries (
    account_id bigint not null,
    attempts integer default 0 not null,
    body text,
    created_at timestamp with time zone not null,
    delivered_at timestamp with time zone,
    error text,
    event_id uuid not null,
    event_type text not null,
    extra_tries integer default 0 not null,
    fact_id bigint not null,
    id bigint default nextval('delivery_ids'::regclass) not null,
    mode text not null,
    next_at timestamp with time zone,
    response_body text,
    response_status integer,
    status text not null,
    stream text not null,
    sub_account_id bigint,
    webhook_id bigint not null
) partition by LIST (status);
create table deliveries_other (
    account_id bigint not null,
    attempts integer default 0 not null,
    body text,
    created_at timestamp with time zone not null,
    delivered_at timestamp with time zone,
    error text,
    event_id uuid not null,
    event_type text not null,
    extra_tries integer default 0 not null,
    fact_id bigint not null,
    id bigint default nextval('delivery_ids'::regclass) not null,
    mode text not null,
    next_at timestamp with time zone,
    response_body text,
    response_status integer,
    status text not null,
    stream text not null,
    sub_account_id bigint,
    webhook_id bigint not null
) partition of deliveries_settled DEFAULT;
create table deliveries_pending (
    account_id bigint not null,
    attempts integer default 0 not null,
    body text,
    created_at timestamp with time zone not null,
    delivered_at timestamp with time zone,
    error text,
    event_id uuid not null,
    event_type text not null,
    extra_tries integer default 0 not null,
    fact_id bigint not null,
    id bigint default nextval('delivery_ids'::regclass) not null,
    mode text not null,
    next_at timestamp with time zone,
    response_body text,
    response_status integer,
    status text not null,
    stream text not null,
    sub_account_id bigint,
    webhook_id bigint not null
) partition of deliveries FOR VALUES IN ('pending');
create table deliveries_settled (
    account_id bigint not null,
    attempts integer default 0 not null,
    body text,
    created_at timestamp with time zone not null,
    delivered_at timestamp with time zone,
    error text,
    event_id uuid not null,
    event_type text not null,
    extra_tries integer default 0 not null,
    fact_id bigint not null,
    id bigint default nextval('delivery_ids'::regclass) not null,
    mode text not null,
    next_at timestamp with time zone,
    response_body text,
    response_status integer,
    status text not null,
    stream text not null,
    sub_account_id bigint,
    webhook_id bigint not null
) partition of deliveries FOR VALUES IN ('delivered', 'failed') partition by RANGE (created_at);
create table do_not_mail_inbox (
    at timestamp with time zone not null,
    code text not null,
    id bigint generated always as identity not null
);
create table erasing_files (
    key text not null,
    since timestamp with time zone not null
);
create table erasing_pieces (
    erasure_id bigint not null,
    item_id bigint not null
);
create table erasures (
    account_id bigint not null,
    again_at timestamp with time zone not null,
    asked_at timestamp with time zone not null,
    done_at timestamp with time zone,
    erased jsonb not null,
    id bigint generated always as identity not null,
    mode text,
    sub_account_id bigint,
    whom_sealed bytea
);
create table fact_queue (
    fact_id bigint not null
);
create table facts (
    account_id bigint not null,
    at timestamp with time zone not null,
    current text not null,
    event_id uuid default gen_random_uuid() not null,
    id bigint generated always as identity not null,
    inferred boolean default false not null,
    item_id bigint,
    kind text not null,
    mode text not null,
    order_id bigint not null,
    order_status text not null,
    place text,
    previous text,
    reason text,
    scans integer default 0 not null,
    seen_at timestamp with time zone,
    sub_account_id bigint
);
create table files (
    account_id bigint not null,
    content_type text not null,
    created_at timestamp with time zone not null,
    expires_at timestamp with time zone,
    id uuid not null,
    key text not null,
    purpose text not null,
    sha256 bytea not null,
    size bigint not null,
    sub_account_id bigint
);
create table giftcard_brands (
    accent text not null,
    amounts integer[] not null,
    code text not null,
    is_offered boolean default true not null,
    issuer_code text,
    "position" integer not null,
    section text not null,
    title text not null,
    updated_at timestamp with time zone not null
);
create table giftcard_stock (
    brand text not null,
    card_sealed bytea not null,
    cents integer not null,
    expires_on date,
    id bigint generated always as identity not null,
    loaded_at timestamp with time zone not null,
    mode text not null,
    set_aside_at timestamp with time zone,
    source text not null,
    taken_at timestamp with time zone,
    taken_by uuid
);
create table giftcards (
    account_id bigint not null,
    asked_at timestamp with time zone not null,
    brand text not null,
    card_sealed bytea,
    cents integer not null,
    claim_digest bytea,
    claim_sealed bytea,
    claimed_at timestamp with time zone,
    given_back_at timestamp with time zone,
    issued_at timestamp with time zone,
    issuer text,
    item_id bigint not null,
    mode text not null,
    opened_at timestamp with time zone,
    order_id bigint not null,
    reference uuid default gen_random_uuid() not null,
    reissued_as bigint,
    report text,
    reported_at timestamp with time zone,
    status text not null,
    sub_account_id bigint,
    visited_at timestamp with time zone,
    void_reason text,
    voided_at timestamp with time zone
);
create table hourly_counts (
    account_id bigint not null,
    hour timestamp with time zone not null,
    mode text not null,
    n bigint not null,
    shard integer not null,
    sub_account_id bigint not null,
    what text not null
);
create table idempotency_keys (
    account_id bigint not null,
    answer_body bytea not null,
    answer_headers jsonb not null,
    answer_status integer not null,
    answer_type text,
    expires_at timestamp with time zone not null,
    key text not null,
    mode text not null,
    path text not null,
    request_digest bytea not null,
    sealed boolean default false not null
);
create table image_templates (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    design_tool_id text,
    id bigint generated always as identity not null,
    image_file_id uuid,
    name text not null,
    sub_account_id bigint,
    type text not null,
    updated_at timestamp with time zone not null
);
create table import_rejects (
    import_id bigint not null,
    line bigint not null,
    place bigint not null,
    reason text not null
);
create table imports (
    account_id bigint not null,
    bytes_read bigint default 0 not null,
    columns jsonb not null,
    created_at timestamp with time zone not null,
    duplicates bigint default 0 not null,
    error text,
    file_bytes bigint not null,
    file_key text,
    file_name text not null,
    finished_at timestamp with time zone,
    id bigint generated always as identity not null,
    layout jsonb not null,
    mailing_list_id bigint not null,
    rows_imported bigint default 0 not null,
    rows_read bigint default 0 not null,
    rows_rejected bigint default 0 not null,
    rows_total bigint,
    status text not null,
    sub_account_id bigint,
    updated_at timestamp with time zone not null
);
create table invitations (
    accepted_at timestamp with time zone,
    account_id bigint not null,
    created_at timestamp with time zone not null,
    digest bytea not null,
    email text not null,
    expires_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    person_id bigint,
    revoked_at timestamp with time zone,
    role text not null,
    sub_account_id bigint
);
create table item_search (
    item_id bigint not null,
    order_id bigint not null,
    words tsvector not null
);
create table items (
    absentee_address text,
    account_id bigint not null,
    address text,
    address2 text,
    address_key text,
    anniversary date,
    background_file_id uuid,
    city text,
    code text,
    company text,
    country text not null,
    created_at timestamp with time zone not null,
    creative_key uuid,
    custom1 text,
    custom10 text,
    custom2 text,
    custom3 text,
    custom4 text,
    custom5 text,
    custom6 text,
    custom7 text,
    custom8 text,
    custom9 text,
    deliverability text,
    delivery_date date,
    delivery_inferred boolean default false not null,
    dob date,
    door_digest bytea,
    email text,
    failure text,
    front_file_id uuid,
    gift_cents integer default 0 not null,
    giftcard_brand text,
    id bigint generated always as identity not null,
    is_mailed boolean default false not null,
    is_over boolean default false not null,
    mailing_list_id bigint,
    mode text not null,
    moved_key text,
    name text,
    order_id bigint not null,
    person_gone_at timestamp with time zone,
    phone text,
    postal_code text,
    price_cents integer not null,
    province text,
    reasons text[],
    scans integer default 0 not null,
    standard text[],
    status text not null,
    sub_account_id bigint,
    surname text,
    updated_at timestamp with time zone not null
);
create table lead_density (
    cell integer not null,
    records bigint not null
);
create table lead_files (
    digest bytea not null,
    imported_at timestamp with time zone not null,
    name text not null,
    records bigint not null,
    refused bigint not null,
    source_id integer not null
);
create table lead_purchases (
    account_id bigint not null,
    cents bigint not null,
    created_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    lead_ids text[],
    mailing_list_id bigint,
    mode text not null,
    order_id bigint,
    records integer not null,
    reference uuid not null,
    sub_account_id bigint,
    told_at timestamp with time zone
);
create table lead_sources (
    id integer generated always as identity not null,
    is_sample boolean not null,
    name text not null,
    records bigint not null,
    updated_at timestamp with time zone not null
);
create table leads (
    address text not null,
    address2 text,
    address_key text not null,
    city text,
    company text,
    country text not null,
    deliverability text not null,
    grid integer not null,
    id bigint generated always as identity not null,
    latitude double precision not null,
    longitude double precision not null,
    name text,
    owner jsonb,
    postal_code text,
    province text,
    reasons text[] not null,
    source_id integer not null,
    standard text[],
    tags integer not null
);
create table ledger_moves (
    account_id bigint not null,
    at timestamp with time zone not null,
    cents bigint not null,
    id bigint generated always as identity not null,
    key text not null,
    kind text not null,
    mode text not null,
    note text,
    order_id bigint,
    source text not null,
    sub_account_id bigint,
    target text not null
);
create table mailers (
    mailer_id text not null,
    next_serial bigint default 2 not null
);
create table mailing_lists (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    description text not null,
    id bigint generated always as identity not null,
    is_suppression_list boolean default false not null,
    kept_for text,
    key_digest bytea,
    key_sealed bytea,
    last_scan timestamp with time zone,
    last_send timestamp with time zone,
    processed boolean default true not null,
    qrcode_url text,
    sub_account_id bigint,
    suppress_by text default 'address'::text not null,
    total_recipients integer default 0 not null,
    total_scans integer default 0 not null,
    total_sends integer default 0 not null,
    type text default 'manual'::text not null,
    unique_scans integer default 0 not null,
    updated_at timestamp with time zone not null
);
create table memberships (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    person_id bigint not null,
    role text not null,
    sub_account_id bigint
);
create table merged_lists (
    from_id bigint not null,
    into_id bigint not null
);
create table message_templates (
    account_id bigint not null,
    content text default ''::text not null,
    created_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    name text not null,
    settings jsonb default '{}'::jsonb not null,
    share_uuid uuid default gen_random_uuid() not null,
    sub_account_id bigint,
    type text not null,
    updated_at timestamp with time zone not null
);
create table news_threads (
    address text not null,
    due_at timestamp with time zone,
    order_id bigint not null,
    quiet_until timestamp with time zone,
    since bigint
);
create table notice_refusals (
    account_id bigint not null,
    address text not null,
    at timestamp with time zone not null
);
create table notices (
    account_id bigint not null,
    address text not null,
    attempts integer default 0 not null,
    channel text not null,
    created_at timestamp with time zone not null,
    ends_at timestamp with time zone,
    error text,
    id bigint generated always as identity not null,
    key text not null,
    kind text not null,
    mode text not null,
    next_at timestamp with time zone,
    secret_sealed bytea,
    sent_at timestamp with time zone,
    status text not null,
    sub_account_id bigint,
    subject text not null,
    words text not null
);
create table oauth_clients (
    account_id bigint not null,
    client_id text not null,
    created_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    is_public boolean not null,
    name text not null,
    person_id bigint,
    redirect_uris text[] not null,
    scopes text[],
    secret_digest bytea,
    secret_hint text,
    updated_at timestamp with time zone not null,
    website text
);
create table oauth_codes (
    asked text[],
    challenge text,
    created_at timestamp with time zone not null,
    digest bytea not null,
    expires_at timestamp with time zone not null,
    grant_id bigint not null,
    redirect_uri text not null,
    used_at timestamp with time zone
);
create table oauth_grants (
    account_id bigint not null,
    client_id bigint not null,
    connected_at timestamp with time zone,
    created_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    ended_by text,
    id bigint generated always as identity not null,
    lapses_at timestamp with time zone,
    mode text not null,
    person_id bigint not null,
    refreshed_at timestamp with time zone,
    scopes text[],
    sub_account_id bigint
);
create table order_counts (
    account_id bigint not null,
    mode text not null,
    n bigint not null,
    shard integer not null,
    sub_account_id bigint not null,
    type text not null
);
create table order_verdicts (
    account_id bigint not null,
    at timestamp with time zone not null,
    id bigint generated always as identity not null,
    operator_id bigint,
    order_id bigint not null,
    reason text not null,
    reasons text[] not null,
    verdict text not null
);
create table orders (
    account_id bigint not null,
    allow_duplicates boolean default false not null,
    append_or_current_resident boolean default false not null,
    audience_pending boolean default false not null,
    authorization_total bigint not null,
    background_file_id uuid,
    background_url text,
    branding jsonb,
    created_at timestamp with time zone not null,
    creative_key uuid,
    due_at timestamp with time zone not null,
    font_size text not null,
    front_file_id uuid,
    front_image_url text,
    gift_total bigint default 0 not null,
    giftcard_accent text,
    giftcard_amount integer,
    giftcard_brand text,
    giftcard_title text,
    handwriting_color text not null,
    handwriting_manner text not null,
    hold_reasons jsonb default '[]'::jsonb not null,
    id bigint generated always as identity not null,
    image_template_id bigint,
    landing_page_url text,
    leads_fee bigint default 0 not null,
    logo_file_id uuid,
    lowest_contrast double precision,
    lowest_dpi integer,
    mail_class text not null,
    mailing_list_ids bigint[] default '{}'::bigint[] not null,
    message text not null,
    message_template_id bigint,
    metadata text,
    metadata_index jsonb generated always as (jsonb_or_null(metadata)) stored,
    method text not null,
    mode text not null,
    multi_scans integer default 0 not null,
    n_delivered integer default 0 not null,
    n_failed integer default 0 not null,
    n_in_local_area integer default 0 not null,
    n_in_transit integer default 0 not null,
    n_lost integer default 0 not null,
    n_mailed integer default 0 not null,
    n_over integer default 0 not null,
    n_printed integer default 0 not null,
    n_processed_for_delivery integer default 0 not null,
    n_processing integer default 0 not null,
    n_re_routed integer default 0 not null,
    n_returned_to_sender integer default 0 not null,
    notification_emails text[] default '{}'::text[] not null,
    order_total bigint not null,
    pages_file_id uuid,
    pages_url text,
    pdf_only boolean default false not null,
    pictures_gone_at timestamp with time zone,
    piece text not null,
    pool_at timestamp with time zone,
    qrcode_url text,
    recipient_count integer default 0 not null,
    return_address text,
    return_address2 text,
    return_city text,
    return_name text,
    return_postal_code text,
    return_province text,
    rush boolean default false not null,
    schedule_for timestamp with time zone,
    sender_company text,
    sender_name text,
    signature_id bigint,
    size text,
    status text not null,
    style integer not null,
    sub_account_id bigint,
    total_estimated_recipients integer not null,
    total_scans integer default 0 not null,
    type text not null,
    updated_at timestamp with time zone not null,
    verified_at timestamp with time zone,
    warnings jsonb default '[]'::jsonb not null
);
create table own_hands (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    deleted_at timestamp with time zone,
    forms bytea,
    id bigint generated always as identity not null,
    letters bytea not null,
    name text not null,
    sample bytea,
    sub_account_id bigint,
    updated_at timestamp with time zone not null
);
create table password_resets (
    created_at timestamp with time zone not null,
    digest bytea not null,
    expires_at timestamp with time zone not null,
    person_id bigint not null,
    used_at timestamp with time zone
);
create table people (
    created_at timestamp with time zone not null,
    email text not null,
    id bigint generated always as identity not null,
    name text not null,
    password_changed_at timestamp with time zone,
    password_hash text,
    totp_begun_at timestamp with time zone,
    totp_sealed bytea,
    totp_since timestamp with time zone,
    totp_step bigint,
    updated_at timestamp with time zone not null
);
create table prices (
    country text not null,
    id bigint generated always as identity not null,
    mail_class text not null,
    size text default ''::text not null,
    type text not null,
    unit_cents integer not null,
    valid_from date not null
);
create table prints (
    batch_id bigint not null,
    edition integer default 0 not null,
    item_id bigint not null,
    "position" integer not null,
    superseded boolean default false not null,
    tracking text
);
create table procrastinate_events (
    at timestamp with time zone default now(),
    id bigint default nextval('procrastinate_events_id_seq'::regclass) not null,
    job_id bigint not null,
    type procrastinate_job_event_type
);
create table procrastinate_jobs (
    abort_requested boolean default false not null,
    args jsonb default '{}'::jsonb not null,
    attempts integer default 0 not null,
    id bigint default nextval('procrastinate_jobs_id_seq'::regclass) not null,
    lock text,
    priority integer default 0 not null,
    queue_name character varying(128) not null,
    queueing_lock text,
    scheduled_at timestamp with time zone,
    status procrastinate_job_status default 'todo'::procrastinate_job_status not null,
    task_name character varying(128) not null,
    worker_id bigint
);
create table procrastinate_periodic_defers (
    defer_timestamp bigint,
    id bigint default nextval('procrastinate_periodic_defers_id_seq'::regclass) not null,
    job_id bigint,
    periodic_id character varying(128) default ''::character varying not null,
    task_name character varying(128) not null
);
create table procrastinate_workers (
    id bigint generated always as identity not null,
    last_heartbeat timestamp with time zone default now() not null
);
create unlogged table rate_windows (
    key text not null,
    started_at timestamp with time zone not null,
    used integer not null
);
create table received_events (
    body text not null,
    event_id text not null,
    event_type text not null,
    id bigint generated always as identity not null,
    received_at timestamp with time zone not null,
    verified boolean not null
);
create table recipient_search (
    recipient_id bigint not null,
    words tsvector not null
);
create table recipients (
    absentee_address text,
    account_id bigint not null,
    address text,
    address2 text,
    address_key text,
    anniversary date,
    city text,
    company text,
    country text,
    created_at timestamp with time zone not null,
    custom1 text,
    custom10 text,
    custom2 text,
    custom3 text,
    custom4 text,
    custom5 text,
    custom6 text,
    custom7 text,
    custom8 text,
    custom9 text,
    deliverability text,
    dob date,
    email text,
    email_key text generated always as (lower(email)) stored,
    id bigint generated always as identity not null,
    is_sample boolean default false not null,
    mailing_list_id bigint not null,
    moved_key text,
    name text,
    phone text,
    postal_code text,
    province text,
    reasons text[],
    standard text[],
    sub_account_id bigint,
    surname text,
    told_apart text default ''::text not null,
    updated_at timestamp with time zone not null
);
create table recipients_to_verify (
    recipient_id bigint not null
);
create table recovery_codes (
    digest bytea not null,
    person_id bigint not null,
    used_at timestamp with time zone
);
create table refresh_tokens (
    created_at timestamp with time zone not null,
    digest bytea not null,
    expires_at timestamp with time zone not null,
    grant_id bigint not null,
    used_at timestamp with time zone
);
create table scan_news (
    at timestamp with time zone not null,
    id bigint generated always as identity not null,
    item_id bigint not null,
    order_id bigint not null
);
create table search_backlog (
    account_id bigint not null,
    first_id bigint not null,
    id bigint generated always as identity not null,
    ids bigint[] not null,
    kind text not null,
    last_id bigint not null
);
create table sessions (
    awaits_code boolean default false not null,
    browser text,
    confirmed_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    digest bytea not null,
    expires_at timestamp with time zone not null,
    id bigint generated always as identity not null,
    membership_id bigint,
    mode text default 'test'::text not null,
    network text,
    person_id bigint not null,
    seen_at timestamp with time zone not null
);
create table signatures (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    deleted_at timestamp with time zone,
    id bigint generated always as identity not null,
    name text not null,
    outlines bytea not null,
    sub_account_id bigint,
    updated_at timestamp with time zone not null
);
create table stored_sends (
    account_id bigint not null,
    answer_body bytea,
    answer_headers jsonb,
    body text not null,
    created_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    id uuid not null,
    mode text not null,
    piece text not null,
    sent_at timestamp with time zone,
    sub_account_id bigint
);
create table sub_accounts (
    account_id bigint not null,
    backgrounds jsonb default '{}'::jsonb not null,
    branding jsonb default '{}'::jsonb not null,
    created_at timestamp with time zone not null,
    deleted_at timestamp with time zone,
    id bigint generated always as identity not null,
    return_address text,
    return_address2 text,
    return_city text,
    return_name text,
    return_postal_code text,
    return_state text,
    title text not null,
    updated_at timestamp with time zone not null
);
create table tokens (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    digest bytea not null,
    expires_at timestamp with time zone,
    grant_id bigint,
    hint text,
    id bigint generated always as identity not null,
    last_used_at timestamp with time zone,
    mode text not null,
    name text not null,
    person_id bigint,
    revoked_at timestamp with time zone,
    scopes text[],
    session_id bigint,
    sub_account_id bigint
);
create table visit_inbox (
    agent text not null,
    at timestamp with time zone not null,
    id bigint generated always as identity not null,
    item_id bigint not null,
    kind text not null
);
create table visits (
    account_id bigint not null,
    agent text not null,
    at timestamp with time zone not null,
    id bigint generated always as identity not null,
    item_id bigint not null,
    kind text not null,
    mailing_list_id bigint,
    mode text not null,
    order_id bigint not null,
    sub_account_id bigint
);
create table webhook_lanes (
    due_at timestamp with time zone,
    failures integer default 0 not null,
    leased_by uuid,
    leased_until timestamp with time zone,
    resting_until timestamp with time zone,
    troubled_since timestamp with time zone,
    webhook_id bigint not null,
    woken bigint default 0 not null
) with (fillfactor=50);
create table webhook_replays (
    account_id bigint not null,
    id bigint generated always as identity not null,
    mode text not null,
    reached_at timestamp with time zone not null,
    reached_id bigint not null,
    since timestamp with time zone not null,
    sub_account_id bigint,
    told bigint not null,
    until timestamp with time zone not null,
    webhook_id bigint not null
);
create table webhooks (
    account_id bigint not null,
    created_at timestamp with time zone not null,
    description text,
    failing_since timestamp with time zone,
    id bigint generated always as identity not null,
    invoke_count bigint default 0 not null,
    last_error text,
    mailing_list_id bigint,
    mode text not null,
    previous_secret_sealed bytea,
    previous_until timestamp with time zone,
    secret_sealed bytea not null,
    status text not null,
    sub_account_id bigint,
    type text not null,
    updated_at timestamp with time zone not null,
    url text not null,
    verb text not null
);
create table webhooks_gone (
    gone_at timestamp with time zone default now() not null,
    webhook_id bigint not null
);
create extension plpgsql;
create role quillpost_app login;
create role quillpost_owner;
create role quillpost_worker login;
create type procrastinate_job_event_type as enum ('deferred', 'started', 'deferred_for_retry', 'failed', 'succeeded', 'cancelled', 'abort_requested', 'aborted', 'scheduled', 'retried');
create type procrastinate_job_status as enum ('todo', 'doing', 'succeeded', 'failed', 'cancelled', 'aborting', 'aborted');
create type procrastinate_job_to_defer_v1 as (queue_name character varying, task_name character varying, priority integer, lock text, queueing_lock text, args jsonb, scheduled_at timestamp with time zone);
create sequence accounts_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence audit_log_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence automation_due_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence automations_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence barred_digests_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence batches_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence carrier_scans_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence delivery_ids as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence do_not_mail_inbox_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence erasures_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence facts_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence giftcard_stock_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence image_templates_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence imports_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence invitations_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence items_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence lead_purchases_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence lead_sources_id_seq as integer start 1 increment 1 minvalue 1 maxvalue 2147483647 cache 1;
create sequence leads_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence ledger_moves_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence mailing_lists_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence memberships_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence message_templates_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence notices_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence oauth_clients_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence oauth_grants_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence order_verdicts_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence orders_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence own_hands_id_seq as bigint start 1000 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence people_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence prices_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence procrastinate_events_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence procrastinate_jobs_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence procrastinate_periodic_defers_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence procrastinate_workers_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence received_events_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence recipients_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence scan_news_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence search_backlog_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence sessions_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence signatures_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence sub_accounts_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence tokens_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence visit_inbox_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence visits_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence webhook_replays_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
create sequence webhooks_id_seq as bigint start 1 increment 1 minvalue 1 maxvalue 9223372036854775807 cache 1;
alter table account_credit add constraint account_credit_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table account_credit add constraint account_credit_pkey PRIMARY KEY (account_id, mode, sub_account_id, shard);
alter table account_spending add constraint account_spending_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table account_spending add constraint account_spending_pkey PRIMARY KEY (account_id, mode, sub_account_id, month, shard);
alter table accounts add constraint accounts_pkey PRIMARY KEY (id);
alter table address_passes add constraint address_passes_name_check CHECK ((name = 'verify'::text));
alter table address_passes add constraint address_passes_pkey PRIMARY KEY (name);
alter table address_verdicts add constraint address_verdicts_deliverability_check CHECK ((deliverability = ANY (ARRAY['deliverable'::text, 'doubtful'::text, 'undeliverable'::text])));
alter table address_verdicts add constraint address_verdicts_dpv_check CHECK ((dpv = ANY (ARRAY['Y'::text, 'D'::text, 'S'::text, 'N'::text])));
alter table address_verdicts add constraint address_verdicts_pkey PRIMARY KEY (address_key, mover);
alter table alembic_version add constraint alembic_version_pkc PRIMARY KEY (version_num);
alter table audit_log add constraint audit_log_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table audit_log add constraint audit_log_pkey PRIMARY KEY (id);
alter table automation_due add constraint automation_due_automation_id_fkey FOREIGN KEY (automation_id) REFERENCES automations(id) ON DELETE CASCADE;
alter table automation_due add constraint automation_due_check CHECK (((recipient_id IS NULL) <> (item_id IS NULL)));
alter table automation_due add constraint automation_due_item_id_fkey FOREIGN KEY (item_id) REFERENCES items(id) ON DELETE CASCADE;
alter table automation_due add constraint automation_due_pkey PRIMARY KEY (id);
alter table automation_due add constraint automation_due_recipient_id_fkey FOREIGN KEY (recipient_id) REFERENCES recipients(id) ON DELETE CASCADE;
alter table automation_sent add constraint automation_sent_automation_id_fkey FOREIGN KEY (automation_id) REFERENCES automations(id) ON DELETE CASCADE;
alter table automation_sent add constraint automation_sent_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table automation_sent add constraint automation_sent_pkey PRIMARY KEY (automation_id, person_key, year);
alter table automations add constraint automations_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table automations add constraint automations_check CHECK (((trigger = 'scan'::text) OR (mailing_list_id IS NOT NULL)));
alter table automations add constraint automations_check1 CHECK (((trigger = 'date'::text) = (date_field IS NOT NULL)));
alter table automations add constraint automations_date_field_check CHECK ((date_field = ANY (ARRAY['dob'::text, 'anniversary'::text])));
alter table automations add constraint automations_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table automations add constraint automations_pkey PRIMARY KEY (id);
alter table automations add constraint automations_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table automations add constraint automations_trigger_check CHECK ((trigger = ANY (ARRAY['list_entry'::text, 'scan'::text, 'date'::text])));
alter table barred_digests add constraint barred_digests_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table barred_digests add constraint barred_digests_kind_check CHECK ((kind = ANY (ARRAY['address'::text, 'household'::text, 'email'::text])));
alter table barred_digests add constraint barred_digests_pkey PRIMARY KEY (id);
alter table batch_files add constraint batch_files_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES batches(id) ON DELETE CASCADE;
alter table batch_files add constraint batch_files_pkey PRIMARY KEY (batch_id, name);
alter table batches add constraint batches_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table batches add constraint batches_pkey PRIMARY KEY (id);
alter table batches add constraint batches_reprint_of_fkey FOREIGN KEY (reprint_of) REFERENCES batches(id);
alter table batches add constraint batches_status_check CHECK ((status = ANY (ARRAY['new'::text, 'composed'::text, 'handed'::text, 'printed'::text, 'mailed'::text])));
alter table carrier_scans add constraint carrier_scans_digest_key UNIQUE (digest);
alter table carrier_scans add constraint carrier_scans_pkey PRIMARY KEY (id);
alter table deliveries add constraint deliveries_pkey PRIMARY KEY (id, created_at, status);
alter table deliveries add constraint deliveries_status_check1 CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));
alter table deliveries_other add constraint deliveries_other_pkey PRIMARY KEY (id, created_at, status);
alter table deliveries_other add constraint deliveries_status_check1 CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));
alter table deliveries_pending add constraint deliveries_pending_pkey PRIMARY KEY (id, created_at, status);
alter table deliveries_pending add constraint deliveries_status_check1 CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));
alter table deliveries_settled add constraint deliveries_settled_pkey PRIMARY KEY (id, created_at, status);
alter table deliveries_settled add constraint deliveries_status_check1 CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));
alter table do_not_mail_inbox add constraint do_not_mail_inbox_pkey PRIMARY KEY (id);
alter table erasing_files add constraint erasing_files_pkey PRIMARY KEY (key);
alter table erasing_pieces add constraint erasing_pieces_erasure_id_fkey FOREIGN KEY (erasure_id) REFERENCES erasures(id) ON DELETE CASCADE;
alter table erasing_pieces add constraint erasing_pieces_item_id_fkey FOREIGN KEY (item_id) REFERENCES items(id) ON DELETE CASCADE;
alter table erasing_pieces add constraint erasing_pieces_pkey PRIMARY KEY (item_id);
alter table erasures add constraint erasures_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table erasures add constraint erasures_pkey PRIMARY KEY (id);
alter table fact_queue add constraint fact_queue_pkey PRIMARY KEY (fact_id);
alter table facts add constraint facts_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table facts add constraint facts_pkey PRIMARY KEY (id);
alter table files add constraint files_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table files add constraint files_key_key UNIQUE (key);
alter table files add constraint files_pkey PRIMARY KEY (id);
alter table files add constraint files_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table giftcard_brands add constraint giftcard_brands_accent_check CHECK ((accent ~ '^#[0-9a-f]{6}$'::text));
alter table giftcard_brands add constraint giftcard_brands_amounts_check CHECK (((cardinality(amounts) > 0) AND (0 < ALL (amounts))));
alter table giftcard_brands add constraint giftcard_brands_code_check CHECK ((code ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text));
alter table giftcard_brands add constraint giftcard_brands_pkey PRIMARY KEY (code);
alter table giftcard_brands add constraint giftcard_brands_title_check CHECK ((title <> ''::text));
alter table giftcard_stock add constraint giftcard_stock_brand_fkey FOREIGN KEY (brand) REFERENCES giftcard_brands(code);
alter table giftcard_stock add constraint giftcard_stock_cents_check CHECK ((cents > 0));
alter table giftcard_stock add constraint giftcard_stock_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table giftcard_stock add constraint giftcard_stock_pkey PRIMARY KEY (id);
alter table giftcard_stock add constraint giftcard_stock_taken_by_key UNIQUE (taken_by);
alter table giftcards add constraint giftcards_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table giftcards add constraint giftcards_cents_check CHECK ((cents > 0));
alter table giftcards add constraint giftcards_check CHECK (((status <> 'issued'::text) OR (ROW(issued_at, claim_digest, card_sealed) IS NOT NULL)));
alter table giftcards add constraint giftcards_check1 CHECK (((status <> 'void'::text) OR (voided_at IS NOT NULL)));
alter table giftcards add constraint giftcards_check2 CHECK (((claimed_at IS NULL) OR (status = 'issued'::text)));
alter table giftcards add constraint giftcards_check3 CHECK (((reissued_as IS NULL) OR (status = 'void'::text)));
alter table giftcards add constraint giftcards_claim_digest_key UNIQUE (claim_digest);
alter table giftcards add constraint giftcards_item_id_fkey FOREIGN KEY (item_id) REFERENCES items(id) ON DELETE CASCADE;
alter table giftcards add constraint giftcards_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table giftcards add constraint giftcards_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table giftcards add constraint giftcards_pkey PRIMARY KEY (item_id);
alter table giftcards add constraint giftcards_reference_key UNIQUE (reference);
alter table giftcards add constraint giftcards_reissued_as_fkey FOREIGN KEY (reissued_as) REFERENCES orders(id) ON DELETE SET NULL;
alter table giftcards add constraint giftcards_status_check CHECK ((status = ANY (ARRAY['asked'::text, 'issued'::text, 'void'::text, 'refused'::text])));
alter table giftcards add constraint giftcards_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table hourly_counts add constraint hourly_counts_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table hourly_counts add constraint hourly_counts_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table hourly_counts add constraint hourly_counts_pkey PRIMARY KEY (account_id, mode, hour, sub_account_id, what, shard);
alter table hourly_counts add constraint hourly_counts_what_check CHECK ((what = ANY (ARRAY['sent'::text, 'delivered'::text, 'scans'::text])));
alter table idempotency_keys add constraint idempotency_keys_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table idempotency_keys add constraint idempotency_keys_pkey PRIMARY KEY (account_id, mode, path, key);
alter table image_templates add constraint image_templates_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table image_templates add constraint image_templates_image_file_id_fkey FOREIGN KEY (image_file_id) REFERENCES files(id);
alter table image_templates add constraint image_templates_pkey PRIMARY KEY (id);
alter table image_templates add constraint image_templates_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table import_rejects add constraint import_rejects_import_id_fkey FOREIGN KEY (import_id) REFERENCES imports(id) ON DELETE CASCADE;
alter table import_rejects add constraint import_rejects_pkey PRIMARY KEY (import_id, place);
alter table imports add constraint imports_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id);
alter table imports add constraint imports_mailing_list_id_fkey FOREIGN KEY (mailing_list_id) REFERENCES mailing_lists(id) ON DELETE CASCADE;
alter table imports add constraint imports_pkey PRIMARY KEY (id);
alter table imports add constraint imports_status_check CHECK ((status = ANY (ARRAY['waiting'::text, 'running'::text, 'done'::text, 'failed'::text, 'cancelled'::text])));
alter table imports add constraint imports_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table invitations add constraint invitations_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table invitations add constraint invitations_check CHECK (((sub_account_id IS NULL) OR (role = 'member'::text)));
alter table invitations add constraint invitations_digest_key UNIQUE (digest);
alter table invitations add constraint invitations_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE SET NULL;
alter table invitations add constraint invitations_pkey PRIMARY KEY (id);
alter table invitations add constraint invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text, 'operator'::text])));
alter table invitations add constraint invitations_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table item_search add constraint item_search_pkey PRIMARY KEY (item_id);
alter table items add constraint items_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table items add constraint items_background_file_id_fkey FOREIGN KEY (background_file_id) REFERENCES files(id);
alter table items add constraint items_code_key UNIQUE (code);
alter table items add constraint items_front_file_id_fkey FOREIGN KEY (front_file_id) REFERENCES files(id);
alter table items add constraint items_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table items add constraint items_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table items add constraint items_pkey PRIMARY KEY (id);
alter table items add constraint items_status_check CHECK ((status = ANY (ARRAY['Processing'::text, 'Printed'::text, 'In Transit'::text, 'In Local Area'::text, 'Processed for Delivery'::text, 'Delivered'::text, 'Re-routed'::text, 'Returned to Sender'::text, 'Failed'::text])));
alter table items add constraint items_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table lead_density add constraint lead_density_pkey PRIMARY KEY (cell);
alter table lead_files add constraint lead_files_pkey PRIMARY KEY (source_id, digest);
alter table lead_files add constraint lead_files_source_id_fkey FOREIGN KEY (source_id) REFERENCES lead_sources(id) ON DELETE CASCADE;
alter table lead_purchases add constraint lead_purchases_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table lead_purchases add constraint lead_purchases_cents_check CHECK ((cents >= 0));
alter table lead_purchases add constraint lead_purchases_mailing_list_id_fkey FOREIGN KEY (mailing_list_id) REFERENCES mailing_lists(id) ON DELETE SET NULL;
alter table lead_purchases add constraint lead_purchases_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table lead_purchases add constraint lead_purchases_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE SET NULL;
alter table lead_purchases add constraint lead_purchases_pkey PRIMARY KEY (id);
alter table lead_purchases add constraint lead_purchases_records_check CHECK ((records > 0));
alter table lead_purchases add constraint lead_purchases_reference_key UNIQUE (reference);
alter table lead_purchases add constraint lead_purchases_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table lead_sources add constraint lead_sources_name_key UNIQUE (name);
alter table lead_sources add constraint lead_sources_pkey PRIMARY KEY (id);
alter table leads add constraint leads_latitude_check CHECK (((latitude >= ('-90'::integer)::double precision) AND (latitude <= (90)::double precision)));
alter table leads add constraint leads_longitude_check CHECK (((longitude >= ('-180'::integer)::double precision) AND (longitude <= (180)::double precision)));
alter table leads add constraint leads_pkey PRIMARY KEY (id);
alter table leads add constraint leads_source_id_fkey FOREIGN KEY (source_id) REFERENCES lead_sources(id) ON DELETE CASCADE;
alter table ledger_moves add constraint ledger_moves_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table ledger_moves add constraint ledger_moves_cents_check CHECK ((cents > 0));
alter table ledger_moves add constraint ledger_moves_check CHECK ((target <> source));
alter table ledger_moves add constraint ledger_moves_gift_check CHECK (
CASE kind
    WHEN 'issue'::text THEN ((source = 'held'::text) AND (target = 'gifts'::text))
    WHEN 'return'::text THEN ((source = 'gifts'::text) AND (target = 'credit'::text))
    ELSE (('gifts'::text <> source) AND ('gifts'::text <> target))
END);
alter table ledger_moves add constraint ledger_moves_key_key UNIQUE (key);
alter table ledger_moves add constraint ledger_moves_kind_check CHECK ((kind = ANY (ARRAY['authorise'::text, 'capture'::text, 'release'::text, 'refund'::text, 'deposit'::text, 'withdrawal'::text, 'issue'::text, 'return'::text])));
alter table ledger_moves add constraint ledger_moves_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table ledger_moves add constraint ledger_moves_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table ledger_moves add constraint ledger_moves_payment_check CHECK (
CASE kind
    WHEN 'deposit'::text THEN (((source = 'paid'::text) AND (target = 'credit'::text)) AND (order_id IS NULL))
    WHEN 'withdrawal'::text THEN (((source = 'credit'::text) AND (target = 'paid'::text)) AND (order_id IS NULL))
    ELSE true
END);
alter table ledger_moves add constraint ledger_moves_pkey PRIMARY KEY (id);
alter table ledger_moves add constraint ledger_moves_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table mailers add constraint mailers_pkey PRIMARY KEY (mailer_id);
alter table mailing_lists add constraint mailing_lists_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table mailing_lists add constraint mailing_lists_check CHECK (((suppress_by = ANY (ARRAY['address'::text, 'household'::text, 'email'::text])) AND (is_suppression_list OR (suppress_by = 'address'::text))));
alter table mailing_lists add constraint mailing_lists_kept_for_check CHECK ((kept_for = ANY (ARRAY['test'::text, 'live'::text])));
alter table mailing_lists add constraint mailing_lists_key_digest_key UNIQUE (key_digest);
alter table mailing_lists add constraint mailing_lists_pkey PRIMARY KEY (id);
alter table mailing_lists add constraint mailing_lists_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table memberships add constraint memberships_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table memberships add constraint memberships_check CHECK (((sub_account_id IS NULL) OR (role = 'member'::text)));
alter table memberships add constraint memberships_person_id_account_id_key UNIQUE (person_id, account_id);
alter table memberships add constraint memberships_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE;
alter table memberships add constraint memberships_pkey PRIMARY KEY (id);
alter table memberships add constraint memberships_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text, 'operator'::text])));
alter table memberships add constraint memberships_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table merged_lists add constraint merged_lists_into_id_fkey FOREIGN KEY (into_id) REFERENCES mailing_lists(id) ON DELETE CASCADE;
alter table merged_lists add constraint merged_lists_pkey PRIMARY KEY (from_id);
alter table message_templates add constraint message_templates_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table message_templates add constraint message_templates_pkey PRIMARY KEY (id);
alter table message_templates add constraint message_templates_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table news_threads add constraint news_threads_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table news_threads add constraint news_threads_pkey PRIMARY KEY (order_id, address);
alter table notice_refusals add constraint notice_refusals_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table notice_refusals add constraint notice_refusals_pkey PRIMARY KEY (account_id, address);
alter table notices add constraint notices_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table notices add constraint notices_channel_check CHECK ((channel = ANY (ARRAY['mail'::text, 'text'::text])));
alter table notices add constraint notices_key_key UNIQUE (key);
alter table notices add constraint notices_pkey PRIMARY KEY (id);
alter table notices add constraint notices_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text, 'unwanted'::text])));
alter table oauth_clients add constraint oauth_clients_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table oauth_clients add constraint oauth_clients_check CHECK ((is_public = (secret_digest IS NULL)));
alter table oauth_clients add constraint oauth_clients_client_id_key UNIQUE (client_id);
alter table oauth_clients add constraint oauth_clients_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE SET NULL;
alter table oauth_clients add constraint oauth_clients_pkey PRIMARY KEY (id);
alter table oauth_clients add constraint oauth_clients_redirect_uris_check CHECK ((cardinality(redirect_uris) > 0));
alter table oauth_codes add constraint oauth_codes_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES oauth_grants(id) ON DELETE CASCADE;
alter table oauth_codes add constraint oauth_codes_pkey PRIMARY KEY (digest);
alter table oauth_grants add constraint oauth_grants_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table oauth_grants add constraint oauth_grants_check CHECK (((ended_at IS NULL) = (ended_by IS NULL)));
alter table oauth_grants add constraint oauth_grants_client_id_fkey FOREIGN KEY (client_id) REFERENCES oauth_clients(id) ON DELETE CASCADE;
alter table oauth_grants add constraint oauth_grants_ended_by_check CHECK ((ended_by = ANY (ARRAY['person'::text, 'app'::text, 'replay'::text, 'reuse'::text, 'membership'::text, 'leak'::text])));
alter table oauth_grants add constraint oauth_grants_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table oauth_grants add constraint oauth_grants_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE;
alter table oauth_grants add constraint oauth_grants_pkey PRIMARY KEY (id);
alter table oauth_grants add constraint oauth_grants_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table order_counts add constraint order_counts_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table order_counts add constraint order_counts_pkey PRIMARY KEY (account_id, mode, sub_account_id, type, shard);
alter table order_verdicts add constraint order_verdicts_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table order_verdicts add constraint order_verdicts_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES accounts(id) ON DELETE SET NULL;
alter table order_verdicts add constraint order_verdicts_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table order_verdicts add constraint order_verdicts_pkey PRIMARY KEY (id);
alter table order_verdicts add constraint order_verdicts_verdict_check CHECK ((verdict = ANY (ARRAY['released'::text, 'refused'::text, 'rushed'::text])));
alter table orders add constraint orders_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table orders add constraint orders_background_file_id_fkey FOREIGN KEY (background_file_id) REFERENCES files(id);
alter table orders add constraint orders_front_file_id_fkey FOREIGN KEY (front_file_id) REFERENCES files(id);
alter table orders add constraint orders_giftcard_amount_check CHECK ((giftcard_amount > 0));
alter table orders add constraint orders_handwriting_manner_check CHECK ((handwriting_manner = ANY (ARRAY['neat'::text, 'natural'::text, 'lively'::text])));
alter table orders add constraint orders_logo_file_id_fkey FOREIGN KEY (logo_file_id) REFERENCES files(id);
alter table orders add constraint orders_mail_class_check CHECK ((mail_class = ANY (ARRAY['first'::text, 'standard'::text])));
alter table orders add constraint orders_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table orders add constraint orders_pages_file_id_fkey FOREIGN KEY (pages_file_id) REFERENCES files(id);
alter table orders add constraint orders_pkey PRIMARY KEY (id);
alter table orders add constraint orders_status_check CHECK ((status = ANY (ARRAY['reviewing'::text, 'processing'::text, 'printing'::text, 'mailed'::text, 'fulfilled'::text, 'cancelled'::text, 'paused'::text, 'error'::text])));
alter table orders add constraint orders_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table own_hands add constraint own_hands_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table own_hands add constraint own_hands_id_check CHECK ((id >= 1000));
alter table own_hands add constraint own_hands_pkey PRIMARY KEY (id);
alter table own_hands add constraint own_hands_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table password_resets add constraint password_resets_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE;
alter table password_resets add constraint password_resets_pkey PRIMARY KEY (digest);
alter table people add constraint people_pkey PRIMARY KEY (id);
alter table prices add constraint prices_pkey PRIMARY KEY (id);
alter table prices add constraint prices_type_size_mail_class_country_valid_from_key UNIQUE (type, size, mail_class, country, valid_from);
alter table prices add constraint prices_unit_cents_check CHECK ((unit_cents >= 0));
alter table prints add constraint prints_item_id_edition_key UNIQUE (item_id, edition);
alter table prints add constraint prints_pkey PRIMARY KEY (batch_id, "position");
alter table procrastinate_events add constraint procrastinate_events_job_id_fkey FOREIGN KEY (job_id) REFERENCES procrastinate_jobs(id) ON DELETE CASCADE;
alter table procrastinate_events add constraint procrastinate_events_pkey PRIMARY KEY (id);
alter table procrastinate_jobs add constraint check_not_todo_abort_requested CHECK ((NOT ((status = 'todo'::procrastinate_job_status) AND (abort_requested = true))));
alter table procrastinate_jobs add constraint procrastinate_jobs_pkey PRIMARY KEY (id);
alter table procrastinate_jobs add constraint procrastinate_jobs_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES procrastinate_workers(id) ON DELETE SET NULL;
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_job_id_fkey FOREIGN KEY (job_id) REFERENCES procrastinate_jobs(id);
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_pkey PRIMARY KEY (id);
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_unique UNIQUE (task_name, periodic_id, defer_timestamp);
alter table procrastinate_workers add constraint procrastinate_workers_pkey PRIMARY KEY (id);
alter table rate_windows add constraint rate_windows_pkey PRIMARY KEY (key);
alter table received_events add constraint received_events_pkey PRIMARY KEY (id);
alter table recipient_search add constraint recipient_search_pkey PRIMARY KEY (recipient_id);
alter table recipients add constraint recipients_mailing_list_id_fkey FOREIGN KEY (mailing_list_id) REFERENCES mailing_lists(id) ON DELETE CASCADE;
alter table recipients add constraint recipients_pkey PRIMARY KEY (id);
alter table recipients_to_verify add constraint recipients_to_verify_pkey PRIMARY KEY (recipient_id);
alter table recipients_to_verify add constraint recipients_to_verify_recipient_id_fkey FOREIGN KEY (recipient_id) REFERENCES recipients(id) ON DELETE CASCADE;
alter table recovery_codes add constraint recovery_codes_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE;
alter table recovery_codes add constraint recovery_codes_pkey PRIMARY KEY (person_id, digest);
alter table refresh_tokens add constraint refresh_tokens_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES oauth_grants(id) ON DELETE CASCADE;
alter table refresh_tokens add constraint refresh_tokens_pkey PRIMARY KEY (digest);
alter table scan_news add constraint scan_news_item_id_fkey FOREIGN KEY (item_id) REFERENCES items(id) ON DELETE CASCADE;
alter table scan_news add constraint scan_news_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table scan_news add constraint scan_news_pkey PRIMARY KEY (id);
alter table search_backlog add constraint search_backlog_kind_check CHECK ((kind = ANY (ARRAY['recipients'::text, 'items'::text])));
alter table search_backlog add constraint search_backlog_pkey PRIMARY KEY (id);
alter table sessions add constraint sessions_digest_key UNIQUE (digest);
alter table sessions add constraint sessions_membership_id_fkey FOREIGN KEY (membership_id) REFERENCES memberships(id) ON DELETE SET NULL;
alter table sessions add constraint sessions_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table sessions add constraint sessions_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE CASCADE;
alter table sessions add constraint sessions_pkey PRIMARY KEY (id);
alter table signatures add constraint signatures_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table signatures add constraint signatures_pkey PRIMARY KEY (id);
alter table signatures add constraint signatures_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id);
alter table stored_sends add constraint stored_sends_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table stored_sends add constraint stored_sends_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table stored_sends add constraint stored_sends_pkey PRIMARY KEY (id);
alter table stored_sends add constraint stored_sends_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table sub_accounts add constraint sub_accounts_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table sub_accounts add constraint sub_accounts_pkey PRIMARY KEY (id);
alter table tokens add constraint tokens_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table tokens add constraint tokens_check CHECK (((grant_id IS NULL) OR (session_id IS NULL)));
alter table tokens add constraint tokens_digest_key UNIQUE (digest);
alter table tokens add constraint tokens_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES oauth_grants(id) ON DELETE CASCADE;
alter table tokens add constraint tokens_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table tokens add constraint tokens_person_id_fkey FOREIGN KEY (person_id) REFERENCES people(id) ON DELETE SET NULL;
alter table tokens add constraint tokens_pkey PRIMARY KEY (id);
alter table tokens add constraint tokens_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table tokens add constraint tokens_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table visit_inbox add constraint visit_inbox_kind_check CHECK ((kind = ANY (ARRAY['person'::text, 'bot'::text, 'preview'::text])));
alter table visit_inbox add constraint visit_inbox_pkey PRIMARY KEY (id);
alter table visits add constraint visits_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table visits add constraint visits_item_id_fkey FOREIGN KEY (item_id) REFERENCES items(id) ON DELETE CASCADE;
alter table visits add constraint visits_kind_check CHECK ((kind = ANY (ARRAY['person'::text, 'bot'::text, 'preview'::text])));
alter table visits add constraint visits_order_id_fkey FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE;
alter table visits add constraint visits_pkey PRIMARY KEY (id);
alter table webhook_lanes add constraint webhook_lanes_pkey PRIMARY KEY (webhook_id);
alter table webhook_lanes add constraint webhook_lanes_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE;
alter table webhook_replays add constraint webhook_replays_pkey PRIMARY KEY (id);
alter table webhook_replays add constraint webhook_replays_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE;
alter table webhooks add constraint webhooks_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id) ON DELETE CASCADE;
alter table webhooks add constraint webhooks_mailing_list_id_fkey FOREIGN KEY (mailing_list_id) REFERENCES mailing_lists(id) ON DELETE CASCADE;
alter table webhooks add constraint webhooks_mode_check CHECK ((mode = ANY (ARRAY['test'::text, 'live'::text])));
alter table webhooks add constraint webhooks_pkey PRIMARY KEY (id);
alter table webhooks add constraint webhooks_status_check CHECK ((status = ANY (ARRAY['active'::text, 'paused'::text, 'failing'::text, 'disabled'::text])));
alter table webhooks add constraint webhooks_sub_account_id_fkey FOREIGN KEY (sub_account_id) REFERENCES sub_accounts(id) ON DELETE CASCADE;
alter table webhooks add constraint webhooks_verb_check CHECK ((verb = ANY (ARRAY['post'::text, 'get'::text])));
alter table webhooks_gone add constraint webhooks_gone_pkey PRIMARY KEY (webhook_id);
CREATE INDEX address_verdicts_expiry ON public.address_verdicts USING btree (expires_at);
CREATE INDEX audit_log_account ON public.audit_log USING btree (account_id, id DESC);
CREATE INDEX audit_log_time ON public.audit_log USING btree (at);
CREATE INDEX automation_due_turn ON public.automation_due USING btree (automation_id, id);
CREATE INDEX automation_sent_at ON public.automation_sent USING btree (automation_id, at);
CREATE INDEX automation_sent_order ON public.automation_sent USING btree (order_id);
CREATE INDEX automation_sent_recipient ON public.automation_sent USING btree (automation_id, recipient_id, year) WHERE (recipient_id IS NOT NULL);
CREATE INDEX automations_account ON public.automations USING btree (account_id, id DESC);
CREATE INDEX automations_date ON public.automations USING btree (date_field, days_offset) WHERE (enabled AND (trigger = 'date'::text));
CREATE INDEX automations_list ON public.automations USING btree (mailing_list_id);
CREATE INDEX automations_scan ON public.automations USING btree (account_id, mode) WHERE (enabled AND (trigger = 'scan'::text));
CREATE INDEX batch_files_secret ON public.batch_files USING btree (batch_id) WHERE is_secret;
CREATE INDEX batches_made ON public.batches USING btree (mode, created_at, id) INCLUDE (status, piece);
CREATE INDEX batches_open ON public.batches USING btree (mode, status, id) WHERE (status <> 'mailed'::text);
CREATE INDEX batches_reprint ON public.batches USING btree (reprint_of) WHERE (reprint_of IS NOT NULL);
CREATE INDEX batches_serials ON public.batches USING btree (mailer_id, first_serial) WHERE (first_serial IS NOT NULL);
CREATE INDEX batches_unsettled ON public.batches USING btree (mode, id) WHERE (settled_at IS NULL);
CREATE INDEX carrier_scans_item ON public.carrier_scans USING btree (item_id) WHERE (item_id IS NOT NULL);
CREATE INDEX carrier_scans_rerouted ON public.carrier_scans USING btree (item_id, scanned_at) WHERE (phase = ANY (ARRAY['pars'::text, 'fpars'::text]));
CREATE INDEX carrier_scans_time ON public.carrier_scans USING brin (received_at);
CREATE INDEX deliveries_facts ON ONLY public.deliveries USING brin (fact_id) WITH (pages_per_range='16');
CREATE INDEX deliveries_failed ON ONLY public.deliveries_settled USING btree (webhook_id, id) WHERE (status = 'failed'::text);
CREATE INDEX deliveries_other_fact_id_idx ON public.deliveries_other USING brin (fact_id) WITH (pages_per_range='16');
CREATE INDEX deliveries_other_webhook_id_id_idx ON public.deliveries_other USING btree (webhook_id, id DESC);
CREATE INDEX deliveries_other_webhook_id_id_idx1 ON public.deliveries_other USING btree (webhook_id, id) WHERE (status = 'failed'::text);
CREATE INDEX deliveries_pending_fact_id_idx ON public.deliveries_pending USING brin (fact_id) WITH (pages_per_range='16');
CREATE INDEX deliveries_pending_webhook_id_id_idx ON public.deliveries_pending USING btree (webhook_id, id DESC);
CREATE INDEX deliveries_settled_fact_id_idx ON ONLY public.deliveries_settled USING brin (fact_id) WITH (pages_per_range='16');
CREATE INDEX deliveries_settled_webhook_id_id_idx ON ONLY public.deliveries_settled USING btree (webhook_id, id DESC);
CREATE INDEX deliveries_stream ON public.deliveries_pending USING btree (webhook_id, stream, id);
CREATE INDEX deliveries_waiting ON public.deliveries_pending USING btree (webhook_id, next_at, id);
CREATE INDEX deliveries_webhook ON ONLY public.deliveries USING btree (webhook_id, id DESC);
CREATE INDEX erasing_pieces_erasure ON public.erasing_pieces USING btree (erasure_id);
CREATE INDEX erasures_open ON public.erasures USING btree (again_at) WHERE (done_at IS NULL);
CREATE INDEX facts_at ON public.facts USING btree (account_id, at, id);
CREATE INDEX facts_item ON public.facts USING btree (item_id, id) WHERE (item_id IS NOT NULL);
CREATE INDEX facts_order ON public.facts USING btree (order_id, id);
CREATE INDEX facts_order_states ON public.facts USING btree (order_id, id) WHERE (kind = 'order.status'::text);
CREATE INDEX facts_time ON public.facts USING brin (at);
CREATE INDEX files_account ON public.files USING btree (account_id, created_at DESC);
CREATE INDEX files_content ON public.files USING btree (account_id, sha256);
CREATE INDEX files_expiry ON public.files USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX giftcard_stock_free ON public.giftcard_stock USING btree (mode, brand, cents, expires_on, id) WHERE (taken_by IS NULL);
CREATE INDEX giftcards_account ON public.giftcards USING btree (account_id);
CREATE INDEX giftcards_asked ON public.giftcards USING btree (item_id) WHERE (status = 'asked'::text);
CREATE INDEX giftcards_order ON public.giftcards USING btree (order_id);
CREATE INDEX giftcards_printable ON public.giftcards USING btree (item_id) WHERE (claim_sealed IS NOT NULL);
CREATE INDEX giftcards_reissued_as ON public.giftcards USING btree (reissued_as) WHERE (reissued_as IS NOT NULL);
CREATE INDEX giftcards_reported ON public.giftcards USING btree (account_id, mode, reported_at) WHERE (reported_at IS NOT NULL);
CREATE INDEX giftcards_sub_account ON public.giftcards USING btree (sub_account_id) WHERE (sub_account_id IS NOT NULL);
CREATE INDEX giftcards_to_give_back ON public.giftcards USING btree (item_id) WHERE ((status = 'void'::text) AND (issuer IS NOT NULL) AND (given_back_at IS NULL));
CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);
CREATE INDEX idx_procrastinate_jobs_worker_not_null ON public.procrastinate_jobs USING btree (worker_id) WHERE ((worker_id IS NOT NULL) AND (status = 'doing'::procrastinate_job_status));
CREATE INDEX idx_procrastinate_workers_last_heartbeat ON public.procrastinate_workers USING btree (last_heartbeat);
CREATE INDEX image_templates_account ON public.image_templates USING btree (account_id, id DESC);
CREATE INDEX image_templates_file ON public.image_templates USING btree (image_file_id) WHERE (image_file_id IS NOT NULL);
CREATE INDEX imports_ended ON public.imports USING btree (account_id, finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX imports_kept ON public.imports USING btree (created_at) WHERE (file_key IS NOT NULL);
CREATE INDEX imports_list ON public.imports USING btree (mailing_list_id, id DESC);
CREATE INDEX imports_unfinished ON public.imports USING btree (id) WHERE (status = ANY (ARRAY['waiting'::text, 'running'::text]));
CREATE INDEX item_search_words ON public.item_search USING gin (words);
CREATE INDEX items_account ON public.items USING btree (account_id, mode, id DESC) INCLUDE (sub_account_id);
CREATE INDEX items_address ON public.items USING btree (account_id, mode, address_key text_pattern_ops, creative_key) WHERE (address_key IS NOT NULL);
CREATE INDEX items_background_file ON public.items USING btree (background_file_id) WHERE (background_file_id IS NOT NULL);
CREATE INDEX items_code_as_read ON public.items USING btree (code_as_read(code)) WHERE (code IS NOT NULL);
CREATE INDEX items_email ON public.items USING btree (account_id, mode, lower(email)) WHERE (email IS NOT NULL);
CREATE INDEX items_front_file ON public.items USING btree (front_file_id) WHERE (front_file_id IS NOT NULL);
CREATE INDEX items_moved ON public.items USING btree (account_id, moved_key) WHERE (moved_key IS NOT NULL);
CREATE INDEX items_name ON public.items USING btree (account_id, mode, lower(name) text_pattern_ops) WHERE (name IS NOT NULL);
CREATE INDEX items_order ON public.items USING btree (order_id, id) INCLUDE (account_id, mode, sub_account_id, status);
CREATE INDEX items_people ON public.items USING btree (updated_at) WHERE ((person_gone_at IS NULL) AND (is_over OR (status = ANY (ARRAY['Delivered'::text, 'Returned to Sender'::text, 'Failed'::text]))));
CREATE INDEX items_waiting ON public.items USING btree (id) WHERE ((status = ANY (ARRAY['Processed for Delivery'::text, 'Re-routed'::text])) AND (NOT is_over));
CREATE INDEX lead_purchases_account ON public.lead_purchases USING btree (account_id);
CREATE INDEX lead_purchases_list ON public.lead_purchases USING btree (mailing_list_id) WHERE (mailing_list_id IS NOT NULL);
CREATE INDEX lead_purchases_order ON public.lead_purchases USING btree (order_id) WHERE (order_id IS NOT NULL);
CREATE INDEX lead_purchases_untold ON public.lead_purchases USING btree (id) WHERE (lead_ids IS NOT NULL);
CREATE INDEX leads_place ON public.leads USING btree (grid, latitude, longitude, tags) INCLUDE (id);
CREATE INDEX ledger_moves_account ON public.ledger_moves USING btree (account_id, mode, at DESC, id DESC) INCLUDE (sub_account_id);
CREATE INDEX ledger_moves_kind ON public.ledger_moves USING btree (account_id, mode, kind, at DESC, id DESC) INCLUDE (sub_account_id);
CREATE INDEX ledger_moves_order ON public.ledger_moves USING btree (order_id);
CREATE INDEX ledger_moves_sub_account ON public.ledger_moves USING btree (sub_account_id, mode, at DESC, id DESC) WHERE (sub_account_id IS NOT NULL);
CREATE INDEX mailing_lists_account ON public.mailing_lists USING btree (account_id, id DESC);
CREATE INDEX mailing_lists_sub_account ON public.mailing_lists USING btree (account_id, sub_account_id, id DESC);
CREATE INDEX mailing_lists_suppression ON public.mailing_lists USING btree (account_id) WHERE is_suppression_list;
CREATE INDEX memberships_account ON public.memberships USING btree (account_id, id);
CREATE INDEX merged_lists_into ON public.merged_lists USING btree (into_id);
CREATE INDEX message_templates_account ON public.message_templates USING btree (account_id, id DESC);
CREATE INDEX news_threads_due ON public.news_threads USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX notices_created ON public.notices USING btree (created_at);
CREATE INDEX notices_due ON public.notices USING btree (channel, next_at) WHERE (status = 'pending'::text);
CREATE INDEX notices_order ON public.notices USING btree (split_part(key, ':'::text, 2)) WHERE (kind = 'scans'::text);
CREATE INDEX notices_reader ON public.notices USING btree (account_id, lower(address)) WHERE (status = 'pending'::text);
CREATE INDEX oauth_clients_account ON public.oauth_clients USING btree (account_id, id DESC);
CREATE INDEX oauth_codes_expiry ON public.oauth_codes USING btree (expires_at);
CREATE INDEX oauth_codes_grant ON public.oauth_codes USING btree (grant_id);
CREATE INDEX oauth_grants_account ON public.oauth_grants USING btree (account_id, id DESC);
CREATE INDEX oauth_grants_client ON public.oauth_grants USING btree (client_id);
CREATE INDEX oauth_grants_person ON public.oauth_grants USING btree (person_id);
CREATE INDEX order_verdicts_order ON public.order_verdicts USING btree (order_id, id);
CREATE INDEX orders_account ON public.orders USING btree (account_id, mode, id DESC) INCLUDE (sub_account_id);
CREATE INDEX orders_background_file ON public.orders USING btree (background_file_id) WHERE (background_file_id IS NOT NULL);
CREATE INDEX orders_created ON public.orders USING btree (account_id, mode, created_at DESC, id DESC) INCLUDE (sub_account_id);
CREATE INDEX orders_due ON public.orders USING btree (due_at) WHERE (status = 'reviewing'::text);
CREATE INDEX orders_front_file ON public.orders USING btree (front_file_id) WHERE (front_file_id IS NOT NULL);
CREATE INDEX orders_gifts ON public.orders USING btree (mode, giftcard_brand, giftcard_amount) WHERE ((giftcard_brand IS NOT NULL) AND (status = ANY (ARRAY['processing'::text, 'printing'::text])));
CREATE INDEX orders_logo_file ON public.orders USING btree (logo_file_id) WHERE (logo_file_id IS NOT NULL);
CREATE INDEX orders_metadata ON public.orders USING gin (metadata_index jsonb_path_ops) WHERE (metadata_index IS NOT NULL);
CREATE INDEX orders_own_hand ON public.orders USING btree (style) WHERE (style >= 1000);
CREATE INDEX orders_pages_file ON public.orders USING btree (pages_file_id) WHERE (pages_file_id IS NOT NULL);
CREATE INDEX orders_paused ON public.orders USING btree (mode, id) WHERE (status = 'paused'::text);
CREATE INDEX orders_pending ON public.orders USING btree (id) WHERE audience_pending;
CREATE INDEX orders_pictures ON public.orders USING btree (updated_at) WHERE ((pictures_gone_at IS NULL) AND (status = ANY (ARRAY['fulfilled'::text, 'cancelled'::text, 'error'::text])));
CREATE INDEX orders_pool ON public.orders USING btree (mode, pool_at) WHERE (pool_at IS NOT NULL);
CREATE INDEX orders_signature ON public.orders USING btree (signature_id) WHERE (signature_id IS NOT NULL);
CREATE INDEX orders_size ON public.orders USING btree (account_id, mode, size, id DESC) INCLUDE (sub_account_id) WHERE (size IS NOT NULL);
CREATE INDEX orders_status ON public.orders USING btree (account_id, mode, status, id DESC) INCLUDE (sub_account_id);
CREATE INDEX orders_sub_account ON public.orders USING btree (account_id, mode, sub_account_id, id DESC);
CREATE INDEX orders_type ON public.orders USING btree (account_id, mode, type, id DESC) INCLUDE (sub_account_id);
CREATE INDEX orders_unverified ON public.orders USING btree (due_at, id) WHERE ((verified_at IS NULL) AND (status = ANY (ARRAY['reviewing'::text, 'paused'::text])));
CREATE INDEX own_hands_account ON public.own_hands USING btree (account_id, id DESC);
CREATE INDEX own_hands_deleted ON public.own_hands USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);
CREATE INDEX password_resets_person ON public.password_resets USING btree (person_id);
CREATE INDEX prints_tracking ON public.prints USING btree (tracking) WHERE (tracking IS NOT NULL);
CREATE INDEX procrastinate_events_job_id_fkey_v1 ON public.procrastinate_events USING btree (job_id);
CREATE INDEX procrastinate_jobs_alike ON public.procrastinate_jobs USING btree (task_name, args) WHERE (status = ANY (ARRAY['todo'::procrastinate_job_status, 'doing'::procrastinate_job_status, 'failed'::procrastinate_job_status]));
CREATE INDEX procrastinate_jobs_id_lock_idx_v1 ON public.procrastinate_jobs USING btree (id, lock) WHERE (status = ANY (ARRAY['todo'::procrastinate_job_status, 'doing'::procrastinate_job_status]));
CREATE INDEX procrastinate_jobs_priority_idx_v1 ON public.procrastinate_jobs USING btree (priority DESC, id) WHERE (status = 'todo'::procrastinate_job_status);
CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON public.procrastinate_jobs USING btree (queue_name);
CREATE INDEX procrastinate_periodic_defers_job_id_fkey_v1 ON public.procrastinate_periodic_defers USING btree (job_id);
CREATE INDEX quillpost_jobs_wake ON public.procrastinate_jobs USING btree (task_name, scheduled_at) WHERE (status = 'todo'::procrastinate_job_status);
CREATE INDEX recipient_search_words ON public.recipient_search USING gin (words);
CREATE INDEX recipients_account ON public.recipients USING btree (account_id, id);
CREATE INDEX recipients_anniversary ON public.recipients USING btree (mailing_list_id, ((((EXTRACT(month FROM anniversary) * (100)::numeric) + EXTRACT(day FROM anniversary)))::integer)) WHERE (anniversary IS NOT NULL);
CREATE INDEX recipients_dob ON public.recipients USING btree (mailing_list_id, ((((EXTRACT(month FROM dob) * (100)::numeric) + EXTRACT(day FROM dob)))::integer)) WHERE (dob IS NOT NULL);
CREATE INDEX recipients_email ON public.recipients USING btree (account_id, email_key) WHERE (email_key IS NOT NULL);
CREATE INDEX recipients_key ON public.recipients USING btree (account_id, address_key) WHERE (address_key IS NOT NULL);
CREATE INDEX recipients_list ON public.recipients USING btree (mailing_list_id, id);
CREATE INDEX recipients_moved ON public.recipients USING btree (account_id, moved_key) WHERE (moved_key IS NOT NULL);
CREATE INDEX recipients_name ON public.recipients USING btree (mailing_list_id, lower(name) text_pattern_ops) WHERE (name IS NOT NULL);
CREATE INDEX recipients_updated ON public.recipients USING btree (mailing_list_id, updated_at, id);
CREATE INDEX refresh_tokens_expiry ON public.refresh_tokens USING btree (expires_at);
CREATE INDEX refresh_tokens_grant ON public.refresh_tokens USING btree (grant_id);
CREATE INDEX scan_news_order ON public.scan_news USING btree (order_id, id);
CREATE INDEX search_backlog_account ON public.search_backlog USING btree (account_id, kind);
CREATE INDEX sessions_expiry ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_person ON public.sessions USING btree (person_id, id DESC);
CREATE INDEX signatures_account ON public.signatures USING btree (account_id, id DESC);
CREATE INDEX signatures_deleted ON public.signatures USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);
CREATE INDEX stored_sends_account ON public.stored_sends USING btree (account_id, created_at DESC);
CREATE INDEX stored_sends_expires ON public.stored_sends USING btree (expires_at);
CREATE INDEX sub_accounts_account ON public.sub_accounts USING btree (account_id, id DESC);
CREATE INDEX tokens_account ON public.tokens USING btree (account_id, id DESC);
CREATE INDEX tokens_expiry ON public.tokens USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX tokens_grant ON public.tokens USING btree (grant_id) WHERE (grant_id IS NOT NULL);
CREATE INDEX tokens_session ON public.tokens USING btree (session_id) WHERE (session_id IS NOT NULL);
CREATE INDEX visits_item ON public.visits USING btree (item_id, id);
CREATE INDEX visits_order ON public.visits USING btree (order_id, id);
CREATE INDEX visits_person ON public.visits USING btree (account_id, mode, id) WHERE (kind = 'person'::text);
CREATE INDEX visits_time ON public.visits USING brin (at);
CREATE INDEX webhook_lanes_due ON public.webhook_lanes USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX webhook_replays_webhook ON public.webhook_replays USING btree (webhook_id);
CREATE INDEX webhooks_account ON public.webhooks USING btree (account_id, id DESC);
CREATE INDEX webhooks_unwell ON public.webhooks USING btree (mode, id) WHERE (status = ANY (ARRAY['failing'::text, 'disabled'::text]));
CREATE UNIQUE INDEX account_credit_pkey ON public.account_credit USING btree (account_id, mode, sub_account_id, shard);
CREATE UNIQUE INDEX account_spending_pkey ON public.account_spending USING btree (account_id, mode, sub_account_id, month, shard);
CREATE UNIQUE INDEX accounts_email ON public.accounts USING btree (lower(email));
CREATE UNIQUE INDEX accounts_pkey ON public.accounts USING btree (id);
CREATE UNIQUE INDEX address_passes_pkey ON public.address_passes USING btree (name);
CREATE UNIQUE INDEX address_verdicts_pkey ON public.address_verdicts USING btree (address_key, mover);
CREATE UNIQUE INDEX alembic_version_pkc ON public.alembic_version USING btree (version_num);
CREATE UNIQUE INDEX audit_log_pkey ON public.audit_log USING btree (id);
CREATE UNIQUE INDEX automation_due_item ON public.automation_due USING btree (item_id, automation_id) WHERE (item_id IS NOT NULL);
CREATE UNIQUE INDEX automation_due_pkey ON public.automation_due USING btree (id);
CREATE UNIQUE INDEX automation_due_recipient ON public.automation_due USING btree (recipient_id, automation_id) WHERE (recipient_id IS NOT NULL);
CREATE UNIQUE INDEX automation_sent_pkey ON public.automation_sent USING btree (automation_id, person_key, year);
CREATE UNIQUE INDEX automations_pkey ON public.automations USING btree (id);
CREATE UNIQUE INDEX barred_digests_once ON public.barred_digests USING btree (account_id, kind, digest, COALESCE(sub_account_id, (0)::bigint));
CREATE UNIQUE INDEX barred_digests_pkey ON public.barred_digests USING btree (id);
CREATE UNIQUE INDEX batch_files_pkey ON public.batch_files USING btree (batch_id, name);
CREATE UNIQUE INDEX batches_pkey ON public.batches USING btree (id);
CREATE UNIQUE INDEX carrier_scans_digest_key ON public.carrier_scans USING btree (digest);
CREATE UNIQUE INDEX carrier_scans_pkey ON public.carrier_scans USING btree (id);
CREATE UNIQUE INDEX deliveries_other_pkey ON public.deliveries_other USING btree (id, created_at, status);
CREATE UNIQUE INDEX deliveries_pending_pkey ON public.deliveries_pending USING btree (id, created_at, status);
CREATE UNIQUE INDEX deliveries_pkey ON ONLY public.deliveries USING btree (id, created_at, status);
CREATE UNIQUE INDEX deliveries_settled_pkey ON ONLY public.deliveries_settled USING btree (id, created_at, status);
CREATE UNIQUE INDEX do_not_mail_inbox_pkey ON public.do_not_mail_inbox USING btree (id);
CREATE UNIQUE INDEX erasing_files_pkey ON public.erasing_files USING btree (key);
CREATE UNIQUE INDEX erasing_pieces_pkey ON public.erasing_pieces USING btree (item_id);
CREATE UNIQUE INDEX erasures_pkey ON public.erasures USING btree (id);
CREATE UNIQUE INDEX fact_queue_pkey ON public.fact_queue USING btree (fact_id);
CREATE UNIQUE INDEX facts_pkey ON public.facts USING btree (id);
CREATE UNIQUE INDEX files_key_key ON public.files USING btree (key);
CREATE UNIQUE INDEX files_pkey ON public.files USING btree (id);
CREATE UNIQUE INDEX giftcard_brands_pkey ON public.giftcard_brands USING btree (code);
CREATE UNIQUE INDEX giftcard_stock_pkey ON public.giftcard_stock USING btree (id);
CREATE UNIQUE INDEX giftcard_stock_taken_by_key ON public.giftcard_stock USING btree (taken_by);
CREATE UNIQUE INDEX giftcards_claim_digest_key ON public.giftcards USING btree (claim_digest);
CREATE UNIQUE INDEX giftcards_pkey ON public.giftcards USING btree (item_id);
CREATE UNIQUE INDEX giftcards_reference_key ON public.giftcards USING btree (reference);
CREATE UNIQUE INDEX hourly_counts_pkey ON public.hourly_counts USING btree (account_id, mode, hour, sub_account_id, what, shard);
CREATE UNIQUE INDEX idempotency_keys_pkey ON public.idempotency_keys USING btree (account_id, mode, path, key);
CREATE UNIQUE INDEX image_templates_pkey ON public.image_templates USING btree (id);
CREATE UNIQUE INDEX import_rejects_pkey ON public.import_rejects USING btree (import_id, place);
CREATE UNIQUE INDEX imports_pkey ON public.imports USING btree (id);
CREATE UNIQUE INDEX invitations_digest_key ON public.invitations USING btree (digest);
CREATE UNIQUE INDEX invitations_pkey ON public.invitations USING btree (id);
CREATE UNIQUE INDEX invitations_waiting ON public.invitations USING btree (account_id, lower(email)) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));
CREATE UNIQUE INDEX item_search_pkey ON public.item_search USING btree (item_id);
CREATE UNIQUE INDEX items_code_key ON public.items USING btree (code);
CREATE UNIQUE INDEX items_pkey ON public.items USING btree (id);
CREATE UNIQUE INDEX lead_density_pkey ON public.lead_density USING btree (cell);
CREATE UNIQUE INDEX lead_files_pkey ON public.lead_files USING btree (source_id, digest);
CREATE UNIQUE INDEX lead_purchases_pkey ON public.lead_purchases USING btree (id);
CREATE UNIQUE INDEX lead_purchases_reference_key ON public.lead_purchases USING btree (reference);
CREATE UNIQUE INDEX lead_sources_name_key ON public.lead_sources USING btree (name);
CREATE UNIQUE INDEX lead_sources_pkey ON public.lead_sources USING btree (id);
CREATE UNIQUE INDEX leads_door ON public.leads USING btree (address_key, source_id);
CREATE UNIQUE INDEX leads_pkey ON public.leads USING btree (id);
CREATE UNIQUE INDEX ledger_moves_key_key ON public.ledger_moves USING btree (key);
CREATE UNIQUE INDEX ledger_moves_pkey ON public.ledger_moves USING btree (id);
CREATE UNIQUE INDEX mailers_pkey ON public.mailers USING btree (mailer_id);
CREATE UNIQUE INDEX mailing_lists_kept ON public.mailing_lists USING btree (account_id, COALESCE(sub_account_id, (0)::bigint), kept_for, is_suppression_list) WHERE (kept_for IS NOT NULL);
CREATE UNIQUE INDEX mailing_lists_key_digest_key ON public.mailing_lists USING btree (key_digest);
CREATE UNIQUE INDEX mailing_lists_pkey ON public.mailing_lists USING btree (id);
CREATE UNIQUE INDEX memberships_person_id_account_id_key ON public.memberships USING btree (person_id, account_id);
CREATE UNIQUE INDEX memberships_pkey ON public.memberships USING btree (id);
CREATE UNIQUE INDEX merged_lists_pkey ON public.merged_lists USING btree (from_id);
CREATE UNIQUE INDEX message_templates_pkey ON public.message_templates USING btree (id);
CREATE UNIQUE INDEX news_threads_pkey ON public.news_threads USING btree (order_id, address);
CREATE UNIQUE INDEX notice_refusals_pkey ON public.notice_refusals USING btree (account_id, address);
CREATE UNIQUE INDEX notices_key_key ON public.notices USING btree (key);
CREATE UNIQUE INDEX notices_pkey ON public.notices USING btree (id);
CREATE UNIQUE INDEX oauth_clients_client_id_key ON public.oauth_clients USING btree (client_id);
CREATE UNIQUE INDEX oauth_clients_pkey ON public.oauth_clients USING btree (id);
CREATE UNIQUE INDEX oauth_codes_pkey ON public.oauth_codes USING btree (digest);
CREATE UNIQUE INDEX oauth_grants_pkey ON public.oauth_grants USING btree (id);
CREATE UNIQUE INDEX order_counts_pkey ON public.order_counts USING btree (account_id, mode, sub_account_id, type, shard);
CREATE UNIQUE INDEX order_verdicts_pkey ON public.order_verdicts USING btree (id);
CREATE UNIQUE INDEX orders_pkey ON public.orders USING btree (id);
CREATE UNIQUE INDEX own_hands_pkey ON public.own_hands USING btree (id);
CREATE UNIQUE INDEX password_resets_pkey ON public.password_resets USING btree (digest);
CREATE UNIQUE INDEX people_email ON public.people USING btree (lower(email));
CREATE UNIQUE INDEX people_pkey ON public.people USING btree (id);
CREATE UNIQUE INDEX prices_pkey ON public.prices USING btree (id);
CREATE UNIQUE INDEX prices_type_size_mail_class_country_valid_from_key ON public.prices USING btree (type, size, mail_class, country, valid_from);
CREATE UNIQUE INDEX prints_item_id_edition_key ON public.prints USING btree (item_id, edition);
CREATE UNIQUE INDEX prints_pkey ON public.prints USING btree (batch_id, "position");
CREATE UNIQUE INDEX procrastinate_events_pkey ON public.procrastinate_events USING btree (id);
CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON public.procrastinate_jobs USING btree (lock) WHERE (status = 'doing'::procrastinate_job_status);
CREATE UNIQUE INDEX procrastinate_jobs_pkey ON public.procrastinate_jobs USING btree (id);
CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON public.procrastinate_jobs USING btree (queueing_lock) WHERE (status = 'todo'::procrastinate_job_status);
CREATE UNIQUE INDEX procrastinate_periodic_defers_pkey ON public.procrastinate_periodic_defers USING btree (id);
CREATE UNIQUE INDEX procrastinate_periodic_defers_unique ON public.procrastinate_periodic_defers USING btree (task_name, periodic_id, defer_timestamp);
CREATE UNIQUE INDEX procrastinate_workers_pkey ON public.procrastinate_workers USING btree (id);
CREATE UNIQUE INDEX rate_windows_pkey ON public.rate_windows USING btree (key);
CREATE UNIQUE INDEX received_events_pkey ON public.received_events USING btree (id);
CREATE UNIQUE INDEX recipient_search_pkey ON public.recipient_search USING btree (recipient_id);
CREATE UNIQUE INDEX recipients_address ON public.recipients USING btree (mailing_list_id, address_key text_pattern_ops, told_apart) WHERE (address_key IS NOT NULL);
CREATE UNIQUE INDEX recipients_pkey ON public.recipients USING btree (id);
CREATE UNIQUE INDEX recipients_to_verify_pkey ON public.recipients_to_verify USING btree (recipient_id);
CREATE UNIQUE INDEX recovery_codes_pkey ON public.recovery_codes USING btree (person_id, digest);
CREATE UNIQUE INDEX refresh_tokens_pkey ON public.refresh_tokens USING btree (digest);
CREATE UNIQUE INDEX scan_news_pkey ON public.scan_news USING btree (id);
CREATE UNIQUE INDEX search_backlog_pkey ON public.search_backlog USING btree (id);
CREATE UNIQUE INDEX sessions_digest_key ON public.sessions USING btree (digest);
CREATE UNIQUE INDEX sessions_pkey ON public.sessions USING btree (id);
CREATE UNIQUE INDEX signatures_pkey ON public.signatures USING btree (id);
CREATE UNIQUE INDEX stored_sends_pkey ON public.stored_sends USING btree (id);
CREATE UNIQUE INDEX sub_accounts_pkey ON public.sub_accounts USING btree (id);
CREATE UNIQUE INDEX tokens_digest_key ON public.tokens USING btree (digest);
CREATE UNIQUE INDEX tokens_pkey ON public.tokens USING btree (id);
CREATE UNIQUE INDEX visit_inbox_pkey ON public.visit_inbox USING btree (id);
CREATE UNIQUE INDEX visits_pkey ON public.visits USING btree (id);
CREATE UNIQUE INDEX webhook_lanes_pkey ON public.webhook_lanes USING btree (webhook_id);
CREATE UNIQUE INDEX webhook_replays_pkey ON public.webhook_replays USING btree (id);
CREATE UNIQUE INDEX webhooks_gone_pkey ON public.webhooks_gone USING btree (webhook_id);
CREATE UNIQUE INDEX webhooks_pkey ON public.webhooks USING btree (id);
create view bars as
 SELECT account_id,
    sub_account_id,
    mode,
    mailing_list_id,
    recipient_id,
    address_key,
    surname,
    email_key,
    kind,
        CASE kind
            WHEN 'email'::text THEN email_key
            WHEN 'household'::text THEN household_key(address_key, surname)
            ELSE address_key
        END AS key
   FROM ( SELECT r.account_id,
            l.sub_account_id,
            l.kept_for AS mode,
            l.id AS mailing_list_id,
            r.id AS recipient_id,
            r.address_key,
            r.surname,
            r.email_key,
                CASE
                    WHEN ((l.suppress_by = 'email'::text) OR bars_email(r.address_key)) THEN 'email'::text
                    WHEN ((l.suppress_by = 'household'::text) AND (r.surname IS NOT NULL)) THEN 'household'::text
                    ELSE 'address'::text
                END AS kind
           FROM (mailing_lists l
             JOIN recipients r ON ((r.mailing_list_id = l.id)))
          WHERE l.is_suppression_list) entry;
CREATE OR REPLACE FUNCTION public.authenticate(p_digest bytea, p_seconds integer, p_now timestamp with time zone)
 RETURNS TABLE(token_id bigint, account_id bigint, sub_account_id bigint, mode text, scopes text[], person_id bigint, grant_id bigint, is_operator boolean, used integer, resets_in integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
declare
    found_id bigint;
    counted_as text;
begin
    select t.id,
           coalesce('grant:' || t.grant_id,
                    case when t.session_id is not null then 'page:' || t.person_id || ':' || t.account_id end,
                    'token:' || t.id),
           t.account_id, t.sub_account_id,
           case when a.test_mode then 'test' else t.mode end, t.scopes, t.person_id, t.grant_id,
           a.is_operator and t.sub_account_id is null and t.grant_id is null
               and (t.session_id is null
                    or exists (select from sessions s join memberships m using (person_id)
                                where s.id = t.session_id and m.account_id = t.account_id
                                  and m.role in ('owner', 'operator')))
      into found_id, counted_as, account_id, sub_account_id, mode, scopes, person_id, grant_id, is_operator
      from tokens t join accounts a on a.id = t.account_id
     where t.digest = p_digest and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > p_now);
    if found_id is null then
        return;
    end if;
    token_id := found_id;
    update tokens set last_used_at = p_now
     where id = found_id
       and (last_used_at is null or last_used_at < p_now - interval '1 minute');
    select c.used, c.resets_in into used, resets_in from count_call(counted_as, p_seconds) c;
    return next;
end $function$
;
CREATE OR REPLACE FUNCTION public.automations_waiting(p_automations bigint[])
 RETURNS TABLE(automation_id bigint, people bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    select d.automation_id, count(*)
      from automation_due d join automations a on a.id = d.automation_id
     where d.automation_id = any(p_automations)
       and a.account_id = nullif(current_setting('app.account_id', true), '')::bigint
     group by 1
$function$
;
CREATE OR REPLACE FUNCTION public.await_search_backlog(p_kind text, p_account bigint, p_first bigint, p_last bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform from search_backlog
      where account_id = p_account and kind = p_kind and first_id <= p_last and last_id >= p_first
      order by id for update;
end $function$
;
CREATE OR REPLACE FUNCTION public.bar_digest(p_account bigint, p_kind text, p_key text)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
    select sha256(convert_to(p_account || ':' || p_kind || ':' || p_key, 'UTF8'))
$function$
;
CREATE OR REPLACE FUNCTION public.barcode_of(service_type text, mailer_id text, serial bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    select '00' || service_type || mailer_id
           || lpad((serial % cast(10 ^ (15 - length(mailer_id)) as bigint))::text, 15 - length(mailer_id), '0')
$function$
;
CREATE OR REPLACE FUNCTION public.bars_email(address_key text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select address_key is null or address_key like '%|?'
$function$
;
CREATE OR REPLACE FUNCTION public.code_as_read(p_code text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    select translate(lower(p_code), '01l', 'oii')
$function$
;
CREATE OR REPLACE FUNCTION public.count_call(p_key text, p_seconds integer, OUT used integer, OUT resets_in integer)
 RETURNS record
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    insert into rate_windows as w (key, started_at, used) values (p_key, clock_timestamp(), 1)
    on conflict (key) do update set
        used = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                    then 1 else w.used + 1 end,
        started_at = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                          then clock_timestamp() else w.started_at end
    returning w.used,
        greatest(1, ceil(extract(epoch from
            w.started_at + make_interval(secs => p_seconds) - clock_timestamp()))::integer)
$function$
;
CREATE OR REPLACE FUNCTION public.count_hours()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
    insert into hourly_counts as c (account_id, mode, sub_account_id, hour, what, shard, n)
    select account_id, mode, coalesce(sub_account_id, 0), date_trunc('hour', at, 'UTC'),
           counted_as(kind, current), pg_backend_pid() % 32, count(*)
      from after where counted_as(kind, current) is not null
     group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    on conflict (account_id, mode, hour, sub_account_id, what, shard) do update set n = c.n + excluded.n;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.count_orders()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if tg_op = 'INSERT' then
        insert into order_counts as c (account_id, mode, sub_account_id, type, shard, n)
        select account_id, mode, coalesce(sub_account_id, 0), type, pg_backend_pid() % 32, count(*)
          from after group by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, type, shard) do update set n = c.n + excluded.n;
    else
        -- Of whole accounts that go, the counts have gone before.
        insert into order_counts as c (account_id, mode, sub_account_id, type, shard, n)
        select account_id, mode, coalesce(sub_account_id, 0), type, pg_backend_pid() % 32, -count(*)
          from before where exists (select 1 from accounts a where a.id = before.account_id)
         group by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, type, shard) do update set n = c.n + excluded.n;
    end if;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.count_recipients()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if tg_op = 'INSERT' then
        update mailing_lists l set total_recipients = l.total_recipients + c.n
          from (select mailing_list_id, count(*) as n from after group by 1) c where l.id = c.mailing_list_id;
    elsif tg_op = 'DELETE' then
        update mailing_lists l set total_recipients = l.total_recipients - c.n
          from (select mailing_list_id, count(*) as n from before group by 1) c where l.id = c.mailing_list_id;
    else
        update mailing_lists l set total_recipients = l.total_recipients + c.n
          from (select mailing_list_id, sum(one) as n
                  from (select mailing_list_id, 1 as one from after
                        union all select mailing_list_id, -1 from before) moved
                 group by 1 having sum(one) <> 0) c
         where l.id = c.mailing_list_id;
    end if;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.counted_as(p_kind text, p_current text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    select case when p_kind = 'item.scan' then 'scans'
                when p_kind = 'item.status' and p_current = 'Printed' then 'sent'
                when p_kind = 'item.status' and p_current = 'Delivered' then 'delivered' end
$function$
;
CREATE OR REPLACE FUNCTION public.credit_of_account(p_mode text)
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    select coalesce(sum(cents), 0)::bigint from account_credit
     where account_id = nullif(current_setting('app.account_id', true), '')::bigint and mode = p_mode
$function$
;
CREATE OR REPLACE FUNCTION public.drop_delivery_days(p_before date)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET lock_timeout TO '2s'
AS $function$
declare
    old record;
begin
    for old in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'deliveries_settled'::regclass and c.relname ~ '^deliveries_\d{8}$'
           and to_date(right(c.relname, 8), 'YYYYMMDD') < p_before
    loop
        execute format('drop table public.%I', old.relname);
    end loop;
    return true;
exception when lock_not_available then
    return false;
end $function$
;
CREATE OR REPLACE FUNCTION public.drop_import_staging(p_import bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    execute format('drop table if exists public.%I', 'import_staging_' || p_import);
end $function$
;
CREATE OR REPLACE FUNCTION public.erased_key(p_automation bigint, p_key text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select 'erased ' || encode(sha256(convert_to(p_automation || ' ' || p_key, 'UTF8')), 'hex')
$function$
;
CREATE OR REPLACE FUNCTION public.files_of_order(p_order bigint)
 RETURNS TABLE(id uuid, key text, sha256 bytea)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    select f.id, f.key, f.sha256
      from orders o
      join files f on f.id in (o.front_file_id, o.background_file_id, o.pages_file_id, o.logo_file_id)
     where o.id = p_order and f.account_id = o.account_id
       and o.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$function$
;
CREATE OR REPLACE FUNCTION public.forget_automation_due(p_automation bigint)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    delete from automation_due d using automations a
     where a.id = p_automation and d.automation_id = a.id
       and a.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$function$
;
CREATE OR REPLACE FUNCTION public.forget_deliveries(p_before timestamp with time zone)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    delete from deliveries_other where created_at < p_before;
    delete from deliveries_pending where created_at < p_before;
$function$
;
CREATE OR REPLACE FUNCTION public.forget_gone_deliveries(p_most integer)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
declare
    forgotten bigint;
begin
    delete from deliveries d
     using (select id, created_at, status from deliveries
             where webhook_id = any(array(select webhook_id from webhooks_gone)) limit p_most) old
     where (d.id, d.created_at, d.status) = (old.id, old.created_at, old.status);
    get diagnostics forgotten = row_count;
    if forgotten = 0 then
        -- Another run may have these rows in hand: then none is left for this one, and they are still there.
        delete from webhooks_gone g
         where g.gone_at < now() - interval '1 day'
           and not exists (select from deliveries d where d.webhook_id = g.webhook_id);
    end if;
    return forgotten;
end $function$
;
CREATE OR REPLACE FUNCTION public.forget_move()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    new.moved_key := null;
    return new;
end $function$
;
CREATE OR REPLACE FUNCTION public.handwriting_of_order(p_order bigint)
 RETURNS TABLE(forms bytea, outlines bytea)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    select (select h.forms from own_hands h where h.id = o.style and h.account_id = o.account_id),
           (select s.outlines from signatures s where s.id = o.signature_id and s.account_id = o.account_id)
      from orders o
     where o.id = p_order and o.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$function$
;
CREATE OR REPLACE FUNCTION public.household_key(p_address_key text, p_surname text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select p_address_key || '||' || p_surname
$function$
;
CREATE OR REPLACE FUNCTION public.index_search_backlog()
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
    waiting search_backlog;
begin
    select * into waiting from search_backlog order by id limit 1 for update skip locked;
    if not found then
        return 0;
    elsif waiting.kind = 'items' then
        insert into item_search (item_id, order_id, words)
        select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city,
                                        province, postal_code)
          from items where id = any(waiting.ids)
        on conflict (item_id) do nothing;
    else
        insert into recipient_search (recipient_id, words)
        select id, recipient_words(account_id, mailing_list_id, name, company, email, address, address2, city, province,
                                   postal_code)
          from recipients where id = any(waiting.ids)
        on conflict (recipient_id) do nothing;
    end if;
    delete from search_backlog where id = waiting.id;
    return cardinality(waiting.ids);
end $function$
;
CREATE OR REPLACE FUNCTION public.is_whole(address text, city text, province text, postal_code text, country text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select address is not null and city is not null
       and (coalesce(country, 'US') <> 'US' or province is not null and postal_code is not null)
$function$
;
CREATE OR REPLACE FUNCTION public.item_words(p_account bigint, p_mode text, p_order bigint, p_name text, p_company text, p_email text, p_address text, p_address2 text, p_city text, p_province text, p_postal_code text)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE COST 1000
AS $function$
begin
    return public.search_vector(p_account || p_mode || ':',
                                concat_ws(' ', p_name, p_company, p_email, p_address, p_address2, p_city, p_province,
                                          p_postal_code))
        || array_to_tsvector(array['#' || p_order]);
end $function$
;
CREATE OR REPLACE FUNCTION public.jsonb_or_null(source text)
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE STRICT
AS $function$
begin
    return source::jsonb;
exception when others then
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.keep_credit()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
    if tg_op in ('UPDATE', 'DELETE') then
        -- Of whole accounts that go, their credit has gone before.
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case source when 'credit' then cents else -cents end)
          from before m
         where 'credit' in (source, target) and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case when kind in ('refund', 'return') then cents else -cents end)
          from before m
         where kind in ('capture', 'refund', 'issue', 'return')
           and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case target when 'credit' then cents else -cents end)
          from after where 'credit' in (source, target)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case when kind in ('capture', 'issue') then cents else -cents end)
          from after where kind in ('capture', 'refund', 'issue', 'return')
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.keep_item_words()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
    if tg_op = 'INSERT' then
        if exists (select from after offset 100) then
            insert into search_backlog (kind, account_id, first_id, last_id, ids)
            select 'items', account_id, min(id), max(id), array_agg(id) from after group by account_id, id / 10000;
        else
            insert into item_search (item_id, order_id, words)
            select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city,
                                            province, postal_code)
              from after;
        end if;
    elsif tg_op = 'DELETE' then
        perform await_search_backlog('items', account_id, min(id), max(id)) from before group by account_id;
        delete from item_search s using before b where s.item_id = b.id;
    else
        perform await_search_backlog('items', new.account_id, new.id, new.id);
        update item_search
           set words = item_words(new.account_id, new.mode, new.order_id, new.name, new.company, new.email,
                                  new.address, new.address2, new.city, new.province, new.postal_code)
         where item_id = new.id;
    end if;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.keep_recipient_words()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
    if tg_op = 'INSERT' then
        if exists (select from after offset 100) then
            insert into search_backlog (kind, account_id, first_id, last_id, ids)
            select 'recipients', account_id, min(id), max(id), array_agg(id) from after
             group by account_id, id / 10000;
        else
            insert into recipient_search (recipient_id, words)
            select id, recipient_words(account_id, mailing_list_id, name, company, email, address, address2, city,
                                       province, postal_code)
              from after;
        end if;
    elsif tg_op = 'DELETE' then
        perform await_search_backlog('recipients', account_id, min(id), max(id)) from before group by account_id;
        delete from recipient_search s using before b where s.recipient_id = b.id;
    else
        perform await_search_backlog('recipients', new.account_id, new.id, new.id);
        update recipient_search
           set words = recipient_words(new.account_id, new.mailing_list_id, new.name, new.company, new.email,
                                       new.address, new.address2, new.city, new.province, new.postal_code)
         where recipient_id = new.id;
    end if;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.keep_waiting_there(p_from bigint, p_into bigint)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    update automation_due d set recipient_id = there.id
      from recipients r join recipients there on there.address_key = r.address_key
     where d.recipient_id = r.id and r.mailing_list_id = p_from and there.mailing_list_id = p_into
       and r.account_id = nullif(current_setting('app.account_id', true), '')::bigint
       and there.account_id = r.account_id
       and not exists (select from automation_due o
                        where o.recipient_id = there.id and o.automation_id = d.automation_id)
$function$
;
CREATE OR REPLACE FUNCTION public.lane_rest(p_webhook bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    select l.resting_until from webhook_lanes l join webhooks w on w.id = l.webhook_id
     where l.webhook_id = p_webhook
       and w.account_id = coalesce(nullif(current_setting('app.account_id', true), '')::bigint, w.account_id)
$function$
;
CREATE OR REPLACE FUNCTION public.list_now(p_list bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    select coalesce((select into_id from merged_lists where from_id = p_list), p_list)
$function$
;
CREATE OR REPLACE FUNCTION public.make_import_staging(p_import bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    execute format('create unlogged table if not exists public.%I (
        place bigint not null, line bigint not null,
        name text, company text, address text, address2 text, city text, province text, postal_code text,
        country text, email text, phone text, dob date, anniversary date,
        custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
        custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
        surname text, address_key text, standard text[], deliverability text, reasons text[], told_apart text
        ) with (autovacuum_enabled = false)', 'import_staging_' || p_import);
    execute format('grant select, insert, delete, truncate on public.%I to quillpost_worker',
                   'import_staging_' || p_import);
end $function$
;
CREATE OR REPLACE FUNCTION public.mover_of(p_name text, p_company text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select sha256(convert_to(lower(regexp_replace(coalesce(p_name, '') || '|' || coalesce(p_company, ''),
                                                  '[[:space:]]+', ' ', 'g')), 'UTF8'))
$function$
;
CREATE OR REPLACE FUNCTION public.new_short_code()
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
    code text := '';
    random bytea;
begin
    while length(code) < 8 loop
        random := uuid_send(gen_random_uuid());      -- the bytes between these say that it is a UUID
        code := code || translate(encode(substring(random, 1, 6) || substring(random, 11), 'base64'), '+/01OIl', '');
    end loop;
    return left(code, 8);
end $function$
;
CREATE OR REPLACE FUNCTION public.note_address()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, new.id, new.updated_at from automations a
     where a.mailing_list_id = new.mailing_list_id and a.enabled and a.trigger = 'list_entry'
       and a.enabled_at <= new.created_at
       and not exists (select from automation_sent s where s.automation_id = a.id and s.recipient_id = new.id)
    on conflict do nothing;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.note_gone_webhook()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into webhooks_gone (webhook_id) values (old.id);
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.note_list_entry()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, r.id, r.created_at
      from automations a join after r on r.mailing_list_id = a.mailing_list_id
     where a.enabled and a.trigger = 'list_entry'
       and is_whole(r.address, r.city, r.province, r.postal_code, r.country)
     order by a.id, r.id
    on conflict do nothing;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.note_list_move()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    delete from automation_due d using automations a
     where d.recipient_id = new.id and a.id = d.automation_id and a.mailing_list_id = old.mailing_list_id;
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, new.id, new.updated_at from automations a
     where a.mailing_list_id = new.mailing_list_id and a.enabled and a.trigger = 'list_entry'
       and is_whole(new.address, new.city, new.province, new.postal_code, new.country)
    on conflict do nothing;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.note_merged_list(p_from bigint, p_into bigint)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    update merged_lists set into_id = p_into
     where into_id = p_from and (select count(*) from mailing_lists
                                  where id in (p_from, p_into)
                                    and account_id = current_setting('app.account_id')::bigint) = 2;
    insert into merged_lists (from_id, into_id)
    select p_from, p_into from mailing_lists f join mailing_lists i on i.account_id = f.account_id
     where f.id = p_from and i.id = p_into and f.account_id = current_setting('app.account_id')::bigint;
$function$
;
CREATE OR REPLACE FUNCTION public.note_readdressed()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into recipients_to_verify (recipient_id)
    select new.id from address_passes where name = 'verify' and last_id >= new.id
    on conflict do nothing;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.note_scan()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into automation_due (automation_id, item_id, since)
    select a.id, v.item_id, min(v.at)
      from automations a
      join after v on v.account_id = a.account_id and v.mode = a.mode and v.kind = 'person'
                  and (a.sub_account_id is null or a.sub_account_id = v.sub_account_id)
                  and (a.mailing_list_id is null or a.mailing_list_id = v.mailing_list_id)
     where a.enabled and a.trigger = 'scan' and v.at >= a.enabled_at
     group by a.id, v.item_id
     order by a.id, v.item_id
    on conflict do nothing;
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.open_delivery_days(p_first date, p_last date)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET lock_timeout TO '2s'
AS $function$
declare
    opened date;
    name text;
begin
    for opened in select d::date from generate_series(p_first, p_last, interval '1 day') d loop
        name := 'deliveries_' || to_char(opened, 'YYYYMMDD');
        if to_regclass('public.' || name) is null and not exists (
            select from deliveries_other
             where created_at >= opened::timestamp at time zone 'UTC'
               and created_at < (opened + 1)::timestamp at time zone 'UTC') then
            execute format('create table public.%I (like deliveries_settled including defaults including constraints)',
                           name);
            execute format('alter table deliveries_settled attach partition public.%I for values from (%L) to (%L)',
                           name, opened::timestamp at time zone 'UTC', (opened + 1)::timestamp at time zone 'UTC');
        end if;
    end loop;
    return true;
exception when lock_not_available then
    return false;
end $function$
;
CREATE OR REPLACE FUNCTION public.open_lane()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into webhook_lanes (webhook_id) values (new.id);
    return null;
end $function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_cancel_job_v1(job_id bigint, abort boolean, delete_job boolean)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    _job_id bigint;
BEGIN
    IF delete_job THEN
        DELETE FROM procrastinate_jobs
        WHERE id = job_id AND status = 'todo'
        RETURNING id INTO _job_id;
    END IF;
    IF _job_id IS NULL THEN
        IF abort THEN
            UPDATE procrastinate_jobs
            SET abort_requested = true,
                status = CASE status
                    WHEN 'todo' THEN 'cancelled'::procrastinate_job_status ELSE status
                END
            WHERE id = job_id AND status IN ('todo', 'doing')
            RETURNING id INTO _job_id;
        ELSE
            UPDATE procrastinate_jobs
            SET status = 'cancelled'::procrastinate_job_status
            WHERE id = job_id AND status = 'todo'
            RETURNING id INTO _job_id;
        END IF;
    END IF;
    RETURN _job_id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_defer_jobs_v1(jobs procrastinate_job_to_defer_v1[])
 RETURNS bigint[]
 LANGUAGE plpgsql
AS $function$
DECLARE
    job_ids bigint[];
BEGIN
    WITH inserted_jobs AS (
        INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
        SELECT (job).queue_name,
               (job).task_name,
               (job).priority,
               (job).lock,
               (job).queueing_lock,
               (job).args,
               (job).scheduled_at
        FROM unnest(jobs) AS job
        RETURNING id
    )
    SELECT array_agg(id) FROM inserted_jobs INTO job_ids;

    RETURN job_ids;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_defer_periodic_job_v2(_queue_name character varying, _lock character varying, _queueing_lock character varying, _task_name character varying, _priority integer, _periodic_id character varying, _defer_timestamp bigint, _args jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
	_job_id bigint;
	_defer_id bigint;
BEGIN
    INSERT
        INTO procrastinate_periodic_defers (task_name, periodic_id, defer_timestamp)
        VALUES (_task_name, _periodic_id, _defer_timestamp)
        ON CONFLICT DO NOTHING
        RETURNING id into _defer_id;

    IF _defer_id IS NULL THEN
        RETURN NULL;
    END IF;

    UPDATE procrastinate_periodic_defers
        SET job_id = (
            SELECT COALESCE((
                SELECT unnest(procrastinate_defer_jobs_v1(
                    ARRAY[
                        ROW(
                            _queue_name,
                            _task_name,
                            _priority,
                            _lock,
                            _queueing_lock,
                            _args,
                            NULL::timestamptz
                        )
                    ]::procrastinate_job_to_defer_v1[]
                ))
            ), NULL)
        )
        WHERE id = _defer_id
        RETURNING job_id INTO _job_id;

    DELETE
        FROM procrastinate_periodic_defers
        USING (
            SELECT id
            FROM procrastinate_periodic_defers
            WHERE procrastinate_periodic_defers.task_name = _task_name
            AND procrastinate_periodic_defers.periodic_id = _periodic_id
            AND procrastinate_periodic_defers.defer_timestamp < _defer_timestamp
            ORDER BY id
            FOR UPDATE
        ) to_delete
        WHERE procrastinate_periodic_defers.id = to_delete.id;

    RETURN _job_id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_fetch_job_v2(target_queue_names character varying[], p_worker_id bigint)
 RETURNS procrastinate_jobs
 LANGUAGE plpgsql
AS $function$
DECLARE
	found_jobs procrastinate_jobs;
BEGIN
    WITH candidate AS (
        SELECT jobs.*
            FROM procrastinate_jobs AS jobs
            WHERE
                -- reject the job if its lock has earlier or higher priority jobs
                NOT EXISTS (
                    SELECT 1
                        FROM procrastinate_jobs AS other_jobs
                        WHERE
                            jobs.lock IS NOT NULL
                            AND other_jobs.lock = jobs.lock
                            AND (
                                -- job with same lock is already running
                                other_jobs.status = 'doing'
                                OR
                                -- job with same lock is waiting and has higher priority (or same priority but was queued first)
                                (
                                    other_jobs.status = 'todo'
                                    AND (
                                        other_jobs.priority > jobs.priority
                                        OR (
                                        other_jobs.priority = jobs.priority
                                        AND other_jobs.id < jobs.id
                                        )
                                    )
                                )
                            )
                )
                AND jobs.status = 'todo'
                AND (target_queue_names IS NULL OR jobs.queue_name = ANY( target_queue_names ))
                AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
            ORDER BY jobs.priority DESC, jobs.id ASC LIMIT 1
            FOR UPDATE OF jobs SKIP LOCKED
    )
    UPDATE procrastinate_jobs
        SET status = 'doing', worker_id = p_worker_id
        FROM candidate
        WHERE procrastinate_jobs.id = candidate.id
        RETURNING procrastinate_jobs.* INTO found_jobs;

 RETURN found_jobs;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_finish_job_v1(job_id bigint, end_status procrastinate_job_status, delete_job boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    _job_id bigint;
BEGIN
    IF end_status NOT IN ('succeeded', 'failed', 'aborted') THEN
        RAISE 'End status should be either "succeeded", "failed" or "aborted" (job id: %)', job_id;
    END IF;
    IF delete_job THEN
        DELETE FROM procrastinate_jobs
        WHERE id = job_id AND status IN ('todo', 'doing')
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = end_status,
            abort_requested = false,
            attempts = CASE status
                WHEN 'doing' THEN attempts + 1 ELSE attempts
            END
        WHERE id = job_id AND status IN ('todo', 'doing')
        RETURNING id INTO _job_id;
    END IF;
    IF _job_id IS NULL THEN
        RAISE 'Job was not found or not in "doing" or "todo" status (job id: %)', job_id;
    END IF;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_notify_queue_abort_job_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    payload TEXT;
BEGIN
    SELECT json_build_object('type', 'abort_job_requested', 'job_id', NEW.id)::text INTO payload;
	PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
	PERFORM pg_notify('procrastinate_any_queue_v1', payload);
	RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_notify_queue_job_inserted_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    payload TEXT;
BEGIN
    SELECT json_build_object('type', 'job_inserted', 'job_id', NEW.id)::text INTO payload;
	PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
	PERFORM pg_notify('procrastinate_any_queue_v1', payload);
	RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat double precision)
 RETURNS TABLE(worker_id bigint)
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN QUERY
    DELETE FROM procrastinate_workers
    WHERE last_heartbeat < NOW() - (seconds_since_heartbeat || 'SECOND')::INTERVAL
    RETURNING procrastinate_workers.id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_register_worker_v1()
 RETURNS TABLE(worker_id bigint)
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN QUERY
    INSERT INTO procrastinate_workers DEFAULT VALUES
    RETURNING procrastinate_workers.id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_retry_job_v1(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    _job_id bigint;
    _abort_requested boolean;
BEGIN
    SELECT abort_requested FROM procrastinate_jobs
    WHERE id = job_id AND status = 'doing'
    FOR UPDATE
    INTO _abort_requested;
    IF _abort_requested THEN
        UPDATE procrastinate_jobs
        SET status = 'failed'::procrastinate_job_status
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = 'todo'::procrastinate_job_status,
            attempts = attempts + 1,
            scheduled_at = retry_at,
            priority = COALESCE(new_priority, priority),
            queue_name = COALESCE(new_queue_name, queue_name),
            lock = COALESCE(new_lock, lock)
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    END IF;

    IF _job_id IS NULL THEN
        RAISE 'Job was not found or not in "doing" status (job id: %)', job_id;
    END IF;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_retry_job_v2(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    _job_id bigint;
    _abort_requested boolean;
    _current_status procrastinate_job_status;
BEGIN
    SELECT status, abort_requested FROM procrastinate_jobs
    WHERE id = job_id AND status IN ('doing', 'failed')
    FOR UPDATE
    INTO _current_status, _abort_requested;
    IF _current_status = 'doing' AND _abort_requested THEN
        UPDATE procrastinate_jobs
        SET status = 'failed'::procrastinate_job_status
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = 'todo'::procrastinate_job_status,
            attempts = attempts + 1,
            scheduled_at = retry_at,
            priority = COALESCE(new_priority, priority),
            queue_name = COALESCE(new_queue_name, queue_name),
            lock = COALESCE(new_lock, lock)
        WHERE id = job_id AND status IN ('doing', 'failed')
        RETURNING id INTO _job_id;
    END IF;

    IF _job_id IS NULL THEN
        RAISE 'Job was not found or has an invalid status to retry (job id: %)', job_id;
    END IF;

END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_trigger_abort_requested_events_procedure_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO procrastinate_events(job_id, type)
        VALUES (NEW.id, 'abort_requested'::procrastinate_job_event_type);
    RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_trigger_function_scheduled_events_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO procrastinate_events(job_id, type, at)
        VALUES (NEW.id, 'scheduled'::procrastinate_job_event_type, NEW.scheduled_at);

	RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_trigger_function_status_events_insert_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO procrastinate_events(job_id, type)
        VALUES (NEW.id, 'deferred'::procrastinate_job_event_type);
	RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_trigger_function_status_events_update_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    WITH t AS (
        SELECT CASE
            WHEN OLD.status = 'todo'::procrastinate_job_status
                AND NEW.status = 'doing'::procrastinate_job_status
                THEN 'started'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'todo'::procrastinate_job_status
                THEN 'deferred_for_retry'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'failed'::procrastinate_job_status
                THEN 'failed'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'succeeded'::procrastinate_job_status
                THEN 'succeeded'::procrastinate_job_event_type
            WHEN OLD.status = 'todo'::procrastinate_job_status
                AND (
                    NEW.status = 'cancelled'::procrastinate_job_status
                    OR NEW.status = 'failed'::procrastinate_job_status
                    OR NEW.status = 'succeeded'::procrastinate_job_status
                )
                THEN 'cancelled'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'aborted'::procrastinate_job_status
                THEN 'aborted'::procrastinate_job_event_type
            WHEN OLD.status = 'failed'::procrastinate_job_status
                AND NEW.status = 'todo'::procrastinate_job_status
                THEN 'retried'::procrastinate_job_event_type
            ELSE NULL
        END as event_type
    )
    INSERT INTO procrastinate_events(job_id, type)
        SELECT NEW.id, t.event_type
        FROM t
        WHERE t.event_type IS NOT NULL;
	RETURN NEW;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_unlink_periodic_defers_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE procrastinate_periodic_defers
    SET job_id = NULL
    WHERE job_id = OLD.id;
    RETURN OLD;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_unregister_worker_v1(worker_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    DELETE FROM procrastinate_workers
    WHERE id = worker_id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.procrastinate_update_heartbeat_v1(worker_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE procrastinate_workers
    SET last_heartbeat = NOW()
    WHERE id = worker_id;
END;
$function$
;
CREATE OR REPLACE FUNCTION public.recipient_words(p_account bigint, p_list bigint, p_name text, p_company text, p_email text, p_address text, p_address2 text, p_city text, p_province text, p_postal_code text)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE COST 1000
AS $function$
begin
    return public.search_vector(p_account || ':', concat_ws(' ', p_name, p_company, p_email, p_address, p_address2,
                                                            p_city, p_province, p_postal_code))
        || array_to_tsvector(array['@' || p_list]);
end $function$
;
CREATE OR REPLACE FUNCTION public.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    raise exception 'The audit log is written once.';
end $function$
;
CREATE OR REPLACE FUNCTION public.search_query(p_scope text, p_text text)
 RETURNS tsquery
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
    select cast(string_agg(distinct '''' || replace(replace(p_scope || word, '\', '\\'), '''', '''''') || ''':*',
                           ' & ') as tsquery)
      from unnest(string_to_array(public.search_text(p_text), ' ')) as found (word) where word <> ''
$function$
;
CREATE OR REPLACE FUNCTION public.search_text(p_text text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
declare
    found text := p_text;
begin
    if octet_length(found) > char_length(found) then
        found := regexp_replace(normalize(found, NFKD), '[\u0300-\u036f]', '', 'g');
        found := replace(replace(replace(found, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe');
        found := translate(found, 'øØłŁđĐðı’', 'oOlLdDdi''');
    end if;
    found := regexp_replace(' ' || lower(found) || ' ',
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]*'
        '[\u0001-\u0020,;/|()<>"\[\]{}]'
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]*', ' ', 'g');
    if octet_length(found) > 500 then
        -- What no index can hold is no word that anybody types.
        found := regexp_replace(found, '([^ ]{100})[^ ]+', '\1', 'g');
    end if;
    return found;
end $function$
;
CREATE OR REPLACE FUNCTION public.search_vector(p_scope text, p_text text)
 RETURNS tsvector
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT COST 1000
AS $function$
declare
    words text := public.search_text(p_text);
begin
    if words ~ '[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]' then
        words := words || translate(words, '@', ' ') || regexp_replace(words,
            '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]+', ' ', 'g');
    end if;
    return array_to_tsvector(array_remove(
        string_to_array(p_scope || replace(words, ' ', ' ' || p_scope), ' '), p_scope));
end $function$
;
CREATE OR REPLACE FUNCTION public.suppressed_items(p_orders bigint[])
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'public'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
        declare
            accounts constant bigint[] := array(select distinct account_id from orders where id = any(p_orders));
            own_mode constant text := nullif(current_setting('app.mode', true), '');
            own_sub_account constant bigint := nullif(current_setting('app.sub_account_id', true), '')::bigint;
        begin
            if exists (select from mailing_lists where account_id = any(accounts) and is_suppression_list)
               or exists (select from barred_digests where account_id = any(accounts)) then
                return query with people as (select i.id, i.account_id, i.sub_account_id, i.mode, i.address_key, i.surname, lower(i.email) as email
               from items i where i.order_id = any(p_orders) and i.status = 'Processing'
              union all
             select i.id, i.account_id, i.sub_account_id, i.mode, i.moved_key, i.surname, null
               from items i where i.order_id = any(p_orders) and i.status = 'Processing' and i.moved_key is not null
                and i.account_id = any(accounts)), digested as materialized (
        select p.id, p.account_id, p.sub_account_id, own.kind, bar_digest(p.account_id, own.kind, own.key) as digest
          from people p
         cross join lateral (values ('address', p.address_key), ('email', p.email),
                                    ('household', household_key(p.address_key, p.surname))) as own (kind, key)
         where own.key is not null
           and own.kind = any(array(
               select kind from (values ('address'), ('household'), ('email')) as known (kind)
                where exists (select from barred_digests d
                               where d.account_id = any(accounts) and d.kind = known.kind)))
    ) 
        select p.id from people p join bars b on b.account_id = p.account_id and b.address_key = p.address_key
         where (b.kind = 'address' or b.kind = 'household' and b.surname = p.surname)
           and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from people p join bars b on b.account_id = p.account_id and b.email_key = p.email
         where b.kind = 'email' and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from digested p join barred_digests d
            on d.account_id = p.account_id and d.kind = p.kind and d.digest = p.digest
         where p.sub_account_id is null or d.sub_account_id is null or d.sub_account_id = p.sub_account_id
    ;
            end if;
        end $function$
;
CREATE OR REPLACE FUNCTION public.suppressed_places(p_sub_account bigint, p_mode text, p_keys text[], p_surnames text[], p_emails text[])
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
        declare
            accounts constant bigint[] := array[nullif(current_setting('app.account_id', true), '')::bigint];
            own_mode constant text := nullif(current_setting('app.mode', true), '');
            own_sub_account constant bigint := nullif(current_setting('app.sub_account_id', true), '')::bigint;
        begin
            if exists (select from mailing_lists where account_id = any(accounts) and is_suppression_list)
               or exists (select from barred_digests where account_id = any(accounts)) then
                return query with people as (select place as id, accounts[1] as account_id,
                    coalesce(own_sub_account, p_sub_account) as sub_account_id, coalesce(own_mode, p_mode) as mode,
                    address_key, surname, lower(email) as email
               from unnest(p_keys, p_surnames, p_emails) with ordinality
                    as asked (address_key, surname, email, place)), digested as materialized (
        select p.id, p.account_id, p.sub_account_id, own.kind, bar_digest(p.account_id, own.kind, own.key) as digest
          from people p
         cross join lateral (values ('address', p.address_key), ('email', p.email),
                                    ('household', household_key(p.address_key, p.surname))) as own (kind, key)
         where own.key is not null
           and own.kind = any(array(
               select kind from (values ('address'), ('household'), ('email')) as known (kind)
                where exists (select from barred_digests d
                               where d.account_id = any(accounts) and d.kind = known.kind)))
    ) 
        select p.id from people p join bars b on b.account_id = p.account_id and b.address_key = p.address_key
         where (b.kind = 'address' or b.kind = 'household' and b.surname = p.surname)
           and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from people p join bars b on b.account_id = p.account_id and b.email_key = p.email
         where b.kind = 'email' and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from digested p join barred_digests d
            on d.account_id = p.account_id and d.kind = p.kind and d.digest = p.digest
         where p.sub_account_id is null or d.sub_account_id is null or d.sub_account_id = p.sub_account_id
    ;
            end if;
        end $function$
;
CREATE OR REPLACE FUNCTION public.suppressed_recipients(p_sub_account bigint, p_mode text, p_lists bigint[])
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
        declare
            accounts constant bigint[] := array[nullif(current_setting('app.account_id', true), '')::bigint];
            own_mode constant text := nullif(current_setting('app.mode', true), '');
            own_sub_account constant bigint := nullif(current_setting('app.sub_account_id', true), '')::bigint;
        begin
            if exists (select from mailing_lists where account_id = any(accounts) and is_suppression_list)
               or exists (select from barred_digests where account_id = any(accounts)) then
                return query with people as (select r.id, r.account_id,
                    coalesce(own_sub_account, p_sub_account) as sub_account_id, coalesce(own_mode, p_mode) as mode,
                    r.address_key, r.surname, r.email_key as email
               from recipients r where r.mailing_list_id = any(p_lists) and r.account_id = accounts[1]
                and (own_sub_account is null or r.sub_account_id = own_sub_account)
              union all
             select r.id, r.account_id,
                    coalesce(own_sub_account, p_sub_account), coalesce(own_mode, p_mode),
                    r.moved_key, r.surname, null
               from recipients r where r.mailing_list_id = any(p_lists) and r.account_id = accounts[1]
                and (own_sub_account is null or r.sub_account_id = own_sub_account)
                and r.moved_key is not null), digested as materialized (
        select p.id, p.account_id, p.sub_account_id, own.kind, bar_digest(p.account_id, own.kind, own.key) as digest
          from people p
         cross join lateral (values ('address', p.address_key), ('email', p.email),
                                    ('household', household_key(p.address_key, p.surname))) as own (kind, key)
         where own.key is not null
           and own.kind = any(array(
               select kind from (values ('address'), ('household'), ('email')) as known (kind)
                where exists (select from barred_digests d
                               where d.account_id = any(accounts) and d.kind = known.kind)))
    ) 
        select p.id from people p join bars b on b.account_id = p.account_id and b.address_key = p.address_key
         where (b.kind = 'address' or b.kind = 'household' and b.surname = p.surname)
           and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from people p join bars b on b.account_id = p.account_id and b.email_key = p.email
         where b.kind = 'email' and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from digested p join barred_digests d
            on d.account_id = p.account_id and d.kind = p.kind and d.digest = p.digest
         where p.sub_account_id is null or d.sub_account_id is null or d.sub_account_id = p.sub_account_id
    ;
            end if;
        end $function$
;
CREATE OR REPLACE FUNCTION public.texts_of(p_json text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select case jsonb_typeof(cast(p_json as jsonb))
           when 'array' then array(select t from jsonb_array_elements_text(cast(p_json as jsonb))
                                   with ordinality as each (t, place) order by place) end
$function$
;
CREATE OR REPLACE FUNCTION public.told_apart(p_suppress_by text, p_surname text, p_email text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select case p_suppress_by when 'household' then coalesce(p_surname, '')
                              when 'email' then coalesce(lower(p_email), '')
                              else '' end
$function$
;
CREATE OR REPLACE FUNCTION public.wake_lane(p_webhook bigint, p_at timestamp with time zone, p_afresh boolean)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
    update webhook_lanes
       set due_at = least(due_at, p_at), woken = woken + 1,
           resting_until = case when p_afresh then null else resting_until end,
           troubled_since = case when p_afresh then null else troubled_since end,
           failures = case when p_afresh then 0 else failures end
     where webhook_id = p_webhook
       and exists (select from webhooks w
                    where w.id = p_webhook
                      and w.account_id = coalesce(nullif(current_setting('app.account_id', true), '')::bigint,
                                                  w.account_id)
                      and (nullif(current_setting('app.sub_account_id', true), '') is null
                           or w.sub_account_id = nullif(current_setting('app.sub_account_id', true), '')::bigint)
                      and w.mode = coalesce(nullif(current_setting('app.mode', true), ''), w.mode))
$function$
;
CREATE OR REPLACE PROCEDURE public.keep_tenants_apart(IN p_table regclass)
 LANGUAGE plpgsql
AS $procedure$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))'
        ' and ((select nullif(current_setting(''app.mode'', true), '''')) is null or mode = '
        '(select current_setting(''app.mode'', true)))';
begin
    execute format('alter table %s enable row level security', p_table);
    execute format('create policy tenant on %s to quillpost_app using (%s) with check (%s)', p_table, rule, rule);
    execute format('create policy worker on %s to quillpost_worker using (true) with check (true)', p_table);
end $procedure$
;
CREATE TRIGGER audit_log_written_once BEFORE UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER facts_counted AFTER INSERT ON public.facts REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_hours();
CREATE TRIGGER items_words_changed AFTER UPDATE OF name, company, email, address, address2, city, province, postal_code ON public.items FOR EACH ROW WHEN (((((((((old.name IS DISTINCT FROM new.name) OR (old.company IS DISTINCT FROM new.company)) OR (old.email IS DISTINCT FROM new.email)) OR (old.address IS DISTINCT FROM new.address)) OR (old.address2 IS DISTINCT FROM new.address2)) OR (old.city IS DISTINCT FROM new.city)) OR (old.province IS DISTINCT FROM new.province)) OR (old.postal_code IS DISTINCT FROM new.postal_code))) EXECUTE FUNCTION keep_item_words();
CREATE TRIGGER items_words_gone AFTER DELETE ON public.items REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION keep_item_words();
CREATE TRIGGER items_words_kept AFTER INSERT ON public.items REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keep_item_words();
CREATE TRIGGER ledger_moves_added AFTER INSERT ON public.ledger_moves REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keep_credit();
CREATE TRIGGER ledger_moves_changed AFTER UPDATE ON public.ledger_moves REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keep_credit();
CREATE TRIGGER ledger_moves_removed AFTER DELETE ON public.ledger_moves REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION keep_credit();
CREATE TRIGGER orders_added AFTER INSERT ON public.orders REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_orders();
CREATE TRIGGER orders_removed AFTER DELETE ON public.orders REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_orders();
CREATE TRIGGER procrastinate_jobs_notify_queue_job_aborted_v1 AFTER UPDATE OF abort_requested ON public.procrastinate_jobs FOR EACH ROW WHEN (((old.abort_requested = false) AND (new.abort_requested = true) AND (new.status = 'doing'::procrastinate_job_status))) EXECUTE FUNCTION procrastinate_notify_queue_abort_job_v1();
CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1 AFTER INSERT ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status)) EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();
CREATE TRIGGER procrastinate_trigger_abort_requested_events_v1 AFTER UPDATE OF abort_requested ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.abort_requested = true)) EXECUTE FUNCTION procrastinate_trigger_abort_requested_events_procedure_v1();
CREATE TRIGGER procrastinate_trigger_delete_jobs_v1 BEFORE DELETE ON public.procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION procrastinate_unlink_periodic_defers_v1();
CREATE TRIGGER procrastinate_trigger_scheduled_events_v1 AFTER INSERT OR UPDATE ON public.procrastinate_jobs FOR EACH ROW WHEN (((new.scheduled_at IS NOT NULL) AND (new.status = 'todo'::procrastinate_job_status))) EXECUTE FUNCTION procrastinate_trigger_function_scheduled_events_v1();
CREATE TRIGGER procrastinate_trigger_status_events_insert_v1 AFTER INSERT ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status)) EXECUTE FUNCTION procrastinate_trigger_function_status_events_insert_v1();
CREATE TRIGGER procrastinate_trigger_status_events_update_v1 AFTER UPDATE OF status ON public.procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION procrastinate_trigger_function_status_events_update_v1();
CREATE TRIGGER recipients_added AFTER INSERT ON public.recipients REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_recipients();
CREATE TRIGGER recipients_changed_list AFTER UPDATE OF mailing_list_id ON public.recipients FOR EACH ROW WHEN (((old.mailing_list_id <> new.mailing_list_id) AND (current_setting('app.merging'::text, true) IS DISTINCT FROM 'yes'::text))) EXECUTE FUNCTION note_list_move();
CREATE TRIGGER recipients_entered AFTER INSERT ON public.recipients REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION note_list_entry();
CREATE TRIGGER recipients_found_address AFTER UPDATE OF address, city, province, postal_code, country ON public.recipients FOR EACH ROW WHEN (((NOT is_whole(old.address, old.city, old.province, old.postal_code, old.country)) AND is_whole(new.address, new.city, new.province, new.postal_code, new.country))) EXECUTE FUNCTION note_address();
CREATE TRIGGER recipients_moved AFTER UPDATE ON public.recipients REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_recipients();
CREATE TRIGGER recipients_readdressed AFTER UPDATE OF address_key ON public.recipients FOR EACH ROW WHEN ((old.address_key IS DISTINCT FROM new.address_key)) EXECUTE FUNCTION note_readdressed();
CREATE TRIGGER recipients_removed AFTER DELETE ON public.recipients REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_recipients();
CREATE TRIGGER recipients_unmoved BEFORE UPDATE OF standard, address_key ON public.recipients FOR EACH ROW WHEN (((old.moved_key IS NOT NULL) AND (current_setting('app.verifying'::text, true) IS DISTINCT FROM 'yes'::text) AND ((old.standard IS DISTINCT FROM new.standard) OR (old.address_key IS DISTINCT FROM new.address_key)))) EXECUTE FUNCTION forget_move();
CREATE TRIGGER recipients_words_changed AFTER UPDATE OF mailing_list_id, name, company, email, address, address2, city, province, postal_code ON public.recipients FOR EACH ROW WHEN ((((((((((old.mailing_list_id IS DISTINCT FROM new.mailing_list_id) OR (old.name IS DISTINCT FROM new.name)) OR (old.company IS DISTINCT FROM new.company)) OR (old.email IS DISTINCT FROM new.email)) OR (old.address IS DISTINCT FROM new.address)) OR (old.address2 IS DISTINCT FROM new.address2)) OR (old.city IS DISTINCT FROM new.city)) OR (old.province IS DISTINCT FROM new.province)) OR (old.postal_code IS DISTINCT FROM new.postal_code))) EXECUTE FUNCTION keep_recipient_words();
CREATE TRIGGER recipients_words_gone AFTER DELETE ON public.recipients REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION keep_recipient_words();
CREATE TRIGGER recipients_words_kept AFTER INSERT ON public.recipients REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keep_recipient_words();
CREATE TRIGGER visits_counted AFTER INSERT ON public.visits REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION note_scan();
CREATE TRIGGER webhooks_added AFTER INSERT ON public.webhooks FOR EACH ROW EXECUTE FUNCTION open_lane();
CREATE TRIGGER webhooks_gone AFTER DELETE ON public.webhooks FOR EACH ROW EXECUTE FUNCTION note_gone_webhook();
alter table account_credit enable row level security;
alter table account_spending enable row level security;
alter table accounts enable row level security;
alter table audit_log enable row level security;
alter table automations enable row level security;
alter table barred_digests enable row level security;
alter table deliveries enable row level security;
alter table facts enable row level security;
alter table files enable row level security;
alter table giftcards enable row level security;
alter table hourly_counts enable row level security;
alter table idempotency_keys enable row level security;
alter table image_templates enable row level security;
alter table imports enable row level security;
alter table invitations enable row level security;
alter table items enable row level security;
alter table lead_purchases enable row level security;
alter table ledger_moves enable row level security;
alter table mailing_lists enable row level security;
alter table memberships enable row level security;
alter table message_templates enable row level security;
alter table oauth_clients enable row level security;
alter table oauth_grants enable row level security;
alter table order_counts enable row level security;
alter table orders enable row level security;
alter table own_hands enable row level security;
alter table people enable row level security;
alter table recipients enable row level security;
alter table signatures enable row level security;
alter table stored_sends enable row level security;
alter table sub_accounts enable row level security;
alter table tokens enable row level security;
alter table visits enable row level security;
alter table webhook_replays enable row level security;
alter table webhooks enable row level security;
create policy connected on oauth_clients as permissive for select to quillpost_app using ((EXISTS ( SELECT
   FROM oauth_grants g
  WHERE (g.client_id = oauth_clients.id))));
create policy tenant on account_credit as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on account_spending as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on accounts as permissive for all to quillpost_app using ((id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif"))) with check ((id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")));
create policy tenant on audit_log as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on automations as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on barred_digests as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on deliveries as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on facts as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on files as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on giftcards as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on hourly_counts as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on idempotency_keys as permissive for all to quillpost_app using ((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif"))) with check ((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")));
create policy tenant on image_templates as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on imports as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on invitations as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on items as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on lead_purchases as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on ledger_moves as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on mailing_lists as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on memberships as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on message_templates as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on oauth_clients as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND (( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND (( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL)));
create policy tenant on oauth_grants as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on order_counts as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on orders as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on own_hands as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on people as permissive for select to quillpost_app using ((EXISTS ( SELECT
   FROM memberships m
  WHERE (m.person_id = people.id))));
create policy tenant on recipients as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on signatures as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on stored_sends as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on sub_accounts as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on tokens as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif")))));
create policy tenant on visits as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on webhook_replays as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy tenant on webhooks as permissive for all to quillpost_app using (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting))))) with check (((account_id = ( SELECT (NULLIF(current_setting('app.account_id'::text, true), ''::text))::bigint AS "nullif")) AND ((( SELECT NULLIF(current_setting('app.sub_account_id'::text, true), ''::text) AS "nullif") IS NULL) OR (sub_account_id = ( SELECT (NULLIF(current_setting('app.sub_account_id'::text, true), ''::text))::bigint AS "nullif"))) AND ((( SELECT NULLIF(current_setting('app.mode'::text, true), ''::text) AS "nullif") IS NULL) OR (mode = ( SELECT current_setting('app.mode'::text, true) AS current_setting)))));
create policy worker on account_credit as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on account_spending as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on accounts as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on audit_log as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on automations as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on barred_digests as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on deliveries as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on facts as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on files as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on giftcards as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on hourly_counts as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on idempotency_keys as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on image_templates as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on imports as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on invitations as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on items as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on lead_purchases as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on ledger_moves as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on mailing_lists as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on memberships as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on message_templates as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on oauth_clients as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on oauth_grants as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on order_counts as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on orders as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on own_hands as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on people as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on recipients as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on signatures as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on stored_sends as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on sub_accounts as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on tokens as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on visits as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on webhook_replays as permissive for all to quillpost_worker using (true) with check (true);
create policy worker on webhooks as permissive for all to quillpost_worker using (true) with check (true);
alter function authenticate(bytea,integer,timestamp with time zone) owner to quillpost_owner;
alter function automations_waiting(bigint[]) owner to quillpost_owner;
alter function await_search_backlog(text,bigint,bigint,bigint) owner to quillpost_owner;
alter function bar_digest(bigint,text,text) owner to quillpost_owner;
alter function barcode_of(text,text,bigint) owner to quillpost_owner;
alter function bars_email(text) owner to quillpost_owner;
alter function code_as_read(text) owner to quillpost_owner;
alter function count_call(text,integer) owner to quillpost_owner;
alter function count_hours() owner to quillpost_owner;
alter function count_orders() owner to quillpost_owner;
alter function count_recipients() owner to quillpost_owner;
alter function counted_as(text,text) owner to quillpost_owner;
alter function credit_of_account(text) owner to quillpost_owner;
alter function drop_delivery_days(date) owner to quillpost_owner;
alter function drop_import_staging(bigint) owner to quillpost_owner;
alter function erased_key(bigint,text) owner to quillpost_owner;
alter function files_of_order(bigint) owner to quillpost_owner;
alter function forget_automation_due(bigint) owner to quillpost_owner;
alter function forget_deliveries(timestamp with time zone) owner to quillpost_owner;
alter function forget_gone_deliveries(integer) owner to quillpost_owner;
alter function forget_move() owner to quillpost_owner;
alter function handwriting_of_order(bigint) owner to quillpost_owner;
alter function household_key(text,text) owner to quillpost_owner;
alter function index_search_backlog() owner to quillpost_owner;
alter function is_whole(text,text,text,text,text) owner to quillpost_owner;
alter function item_words(bigint,text,bigint,text,text,text,text,text,text,text,text) owner to quillpost_owner;
alter function jsonb_or_null(text) owner to quillpost_owner;
alter function keep_credit() owner to quillpost_owner;
alter function keep_item_words() owner to quillpost_owner;
alter function keep_recipient_words() owner to quillpost_owner;
alter function keep_tenants_apart(regclass) owner to quillpost_owner;
alter function keep_waiting_there(bigint,bigint) owner to quillpost_owner;
alter function lane_rest(bigint) owner to quillpost_owner;
alter function list_now(bigint) owner to quillpost_owner;
alter function make_import_staging(bigint) owner to quillpost_owner;
alter function mover_of(text,text) owner to quillpost_owner;
alter function new_short_code() owner to quillpost_owner;
alter function note_address() owner to quillpost_owner;
alter function note_gone_webhook() owner to quillpost_owner;
alter function note_list_entry() owner to quillpost_owner;
alter function note_list_move() owner to quillpost_owner;
alter function note_merged_list(bigint,bigint) owner to quillpost_owner;
alter function note_readdressed() owner to quillpost_owner;
alter function note_scan() owner to quillpost_owner;
alter function open_delivery_days(date,date) owner to quillpost_owner;
alter function open_lane() owner to quillpost_owner;
alter function procrastinate_cancel_job_v1(bigint,boolean,boolean) owner to quillpost_owner;
alter function procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[]) owner to quillpost_owner;
alter function procrastinate_defer_periodic_job_v2(character varying,character varying,character varying,character varying,integer,character varying,bigint,jsonb) owner to quillpost_owner;
alter function procrastinate_fetch_job_v2(character varying[],bigint) owner to quillpost_owner;
alter function procrastinate_finish_job_v1(bigint,procrastinate_job_status,boolean) owner to quillpost_owner;
alter function procrastinate_notify_queue_abort_job_v1() owner to quillpost_owner;
alter function procrastinate_notify_queue_job_inserted_v1() owner to quillpost_owner;
alter function procrastinate_prune_stalled_workers_v1(double precision) owner to quillpost_owner;
alter function procrastinate_register_worker_v1() owner to quillpost_owner;
alter function procrastinate_retry_job_v1(bigint,timestamp with time zone,integer,character varying,character varying) owner to quillpost_owner;
alter function procrastinate_retry_job_v2(bigint,timestamp with time zone,integer,character varying,character varying) owner to quillpost_owner;
alter function procrastinate_trigger_abort_requested_events_procedure_v1() owner to quillpost_owner;
alter function procrastinate_trigger_function_scheduled_events_v1() owner to quillpost_owner;
alter function procrastinate_trigger_function_status_events_insert_v1() owner to quillpost_owner;
alter function procrastinate_trigger_function_status_events_update_v1() owner to quillpost_owner;
alter function procrastinate_unlink_periodic_defers_v1() owner to quillpost_owner;
alter function procrastinate_unregister_worker_v1(bigint) owner to quillpost_owner;
alter function procrastinate_update_heartbeat_v1(bigint) owner to quillpost_owner;
alter function recipient_words(bigint,bigint,text,text,text,text,text,text,text,text) owner to quillpost_owner;
alter function refuse_change() owner to quillpost_owner;
alter function search_query(text,text) owner to quillpost_owner;
alter function search_text(text) owner to quillpost_owner;
alter function search_vector(text,text) owner to quillpost_owner;
alter function suppressed_items(bigint[]) owner to quillpost_owner;
alter function suppressed_places(bigint,text,text[],text[],text[]) owner to quillpost_owner;
alter function suppressed_recipients(bigint,text,bigint[]) owner to quillpost_owner;
alter function texts_of(text) owner to quillpost_owner;
alter function told_apart(text,text,text) owner to quillpost_owner;
alter function wake_lane(bigint,timestamp with time zone,boolean) owner to quillpost_owner;
alter table account_credit owner to quillpost_owner;
alter table account_spending owner to quillpost_owner;
alter table accounts owner to quillpost_owner;
alter table accounts_id_seq owner to quillpost_owner;
alter table address_passes owner to quillpost_owner;
alter table address_verdicts owner to quillpost_owner;
alter table alembic_version owner to quillpost_owner;
alter table audit_log owner to quillpost_owner;
alter table audit_log_id_seq owner to quillpost_owner;
alter table automation_due owner to quillpost_owner;
alter table automation_due_id_seq owner to quillpost_owner;
alter table automation_sent owner to quillpost_owner;
alter table automations owner to quillpost_owner;
alter table automations_id_seq owner to quillpost_owner;
alter table barred_digests owner to quillpost_owner;
alter table barred_digests_id_seq owner to quillpost_owner;
alter table bars owner to quillpost_owner;
alter table batch_files owner to quillpost_owner;
alter table batches owner to quillpost_owner;
alter table batches_id_seq owner to quillpost_owner;
alter table carrier_scans owner to quillpost_owner;
alter table carrier_scans_id_seq owner to quillpost_owner;
alter table deliveries owner to quillpost_owner;
alter table deliveries_other owner to quillpost_owner;
alter table deliveries_pending owner to quillpost_owner;
alter table deliveries_settled owner to quillpost_owner;
alter table delivery_ids owner to quillpost_owner;
alter table do_not_mail_inbox owner to quillpost_owner;
alter table do_not_mail_inbox_id_seq owner to quillpost_owner;
alter table erasing_files owner to quillpost_owner;
alter table erasing_pieces owner to quillpost_owner;
alter table erasures owner to quillpost_owner;
alter table erasures_id_seq owner to quillpost_owner;
alter table fact_queue owner to quillpost_owner;
alter table facts owner to quillpost_owner;
alter table facts_id_seq owner to quillpost_owner;
alter table files owner to quillpost_owner;
alter table giftcard_brands owner to quillpost_owner;
alter table giftcard_stock owner to quillpost_owner;
alter table giftcard_stock_id_seq owner to quillpost_owner;
alter table giftcards owner to quillpost_owner;
alter table hourly_counts owner to quillpost_owner;
alter table idempotency_keys owner to quillpost_owner;
alter table image_templates owner to quillpost_owner;
alter table image_templates_id_seq owner to quillpost_owner;
alter table import_rejects owner to quillpost_owner;
alter table imports owner to quillpost_owner;
alter table imports_id_seq owner to quillpost_owner;
alter table invitations owner to quillpost_owner;
alter table invitations_id_seq owner to quillpost_owner;
alter table item_search owner to quillpost_owner;
alter table items owner to quillpost_owner;
alter table items_id_seq owner to quillpost_owner;
alter table lead_density owner to quillpost_owner;
alter table lead_files owner to quillpost_owner;
alter table lead_purchases owner to quillpost_owner;
alter table lead_purchases_id_seq owner to quillpost_owner;
alter table lead_sources owner to quillpost_owner;
alter table lead_sources_id_seq owner to quillpost_owner;
alter table leads owner to quillpost_owner;
alter table leads_id_seq owner to quillpost_owner;
alter table ledger_moves owner to quillpost_owner;
alter table ledger_moves_id_seq owner to quillpost_owner;
alter table mailers owner to quillpost_owner;
alter table mailing_lists owner to quillpost_owner;
alter table mailing_lists_id_seq owner to quillpost_owner;
alter table memberships owner to quillpost_owner;
alter table memberships_id_seq owner to quillpost_owner;
alter table merged_lists owner to quillpost_owner;
alter table message_templates owner to quillpost_owner;
alter table message_templates_id_seq owner to quillpost_owner;
alter table news_threads owner to quillpost_owner;
alter table notice_refusals owner to quillpost_owner;
alter table notices owner to quillpost_owner;
alter table notices_id_seq owner to quillpost_owner;
alter table oauth_clients owner to quillpost_owner;
alter table oauth_clients_id_seq owner to quillpost_owner;
alter table oauth_codes owner to quillpost_owner;
alter table oauth_grants owner to quillpost_owner;
alter table oauth_grants_id_seq owner to quillpost_owner;
alter table order_counts owner to quillpost_owner;
alter table order_verdicts owner to quillpost_owner;
alter table order_verdicts_id_seq owner to quillpost_owner;
alter table orders owner to quillpost_owner;
alter table orders_id_seq owner to quillpost_owner;
alter table own_hands owner to quillpost_owner;
alter table own_hands_id_seq owner to quillpost_owner;
alter table password_resets owner to quillpost_owner;
alter table people owner to quillpost_owner;
alter table people_id_seq owner to quillpost_owner;
alter table prices owner to quillpost_owner;
alter table prices_id_seq owner to quillpost_owner;
alter table prints owner to quillpost_owner;
alter table procrastinate_events owner to quillpost_owner;
alter table procrastinate_events_id_seq owner to quillpost_owner;
alter table procrastinate_jobs owner to quillpost_owner;
alter table procrastinate_jobs_id_seq owner to quillpost_owner;
alter table procrastinate_periodic_defers owner to quillpost_owner;
alter table procrastinate_periodic_defers_id_seq owner to quillpost_owner;
alter table procrastinate_workers owner to quillpost_owner;
alter table procrastinate_workers_id_seq owner to quillpost_owner;
alter table rate_windows owner to quillpost_owner;
alter table received_events owner to quillpost_owner;
alter table received_events_id_seq owner to quillpost_owner;
alter table recipient_search owner to quillpost_owner;
alter table recipients owner to quillpost_owner;
alter table recipients_id_seq owner to quillpost_owner;
alter table recipients_to_verify owner to quillpost_owner;
alter table recovery_codes owner to quillpost_owner;
alter table refresh_tokens owner to quillpost_owner;
alter table scan_news owner to quillpost_owner;
alter table scan_news_id_seq owner to quillpost_owner;
alter table search_backlog owner to quillpost_owner;
alter table search_backlog_id_seq owner to quillpost_owner;
alter table sessions owner to quillpost_owner;
alter table sessions_id_seq owner to quillpost_owner;
alter table signatures owner to quillpost_owner;
alter table signatures_id_seq owner to quillpost_owner;
alter table stored_sends owner to quillpost_owner;
alter table sub_accounts owner to quillpost_owner;
alter table sub_accounts_id_seq owner to quillpost_owner;
alter table tokens owner to quillpost_owner;
alter table tokens_id_seq owner to quillpost_owner;
alter table visit_inbox owner to quillpost_owner;
alter table visit_inbox_id_seq owner to quillpost_owner;
alter table visits owner to quillpost_owner;
alter table visits_id_seq owner to quillpost_owner;
alter table webhook_lanes owner to quillpost_owner;
alter table webhook_replays owner to quillpost_owner;
alter table webhook_replays_id_seq owner to quillpost_owner;
alter table webhooks owner to quillpost_owner;
alter table webhooks_gone owner to quillpost_owner;
alter table webhooks_id_seq owner to quillpost_owner;
grant create, usage on schema public to quillpost_owner;
grant delete, insert, select on table audit_log to quillpost_worker;
grant delete, insert, select, update on table account_credit to quillpost_worker;
grant delete, insert, select, update on table account_spending to quillpost_worker;
grant delete, insert, select, update on table accounts to quillpost_worker;
grant delete, insert, select, update on table address_passes to quillpost_worker;
grant delete, insert, select, update on table address_verdicts to quillpost_worker;
grant delete, insert, select, update on table alembic_version to quillpost_worker;
grant delete, insert, select, update on table automation_due to quillpost_worker;
grant delete, insert, select, update on table automation_sent to quillpost_worker;
grant delete, insert, select, update on table automations to quillpost_app;
grant delete, insert, select, update on table automations to quillpost_worker;
grant delete, insert, select, update on table barred_digests to quillpost_app;
grant delete, insert, select, update on table barred_digests to quillpost_worker;
grant delete, insert, select, update on table batch_files to quillpost_worker;
grant delete, insert, select, update on table batches to quillpost_worker;
grant delete, insert, select, update on table carrier_scans to quillpost_worker;
grant delete, insert, select, update on table deliveries to quillpost_app;
grant delete, insert, select, update on table deliveries to quillpost_worker;
grant delete, insert, select, update on table do_not_mail_inbox to quillpost_worker;
grant delete, insert, select, update on table erasing_files to quillpost_worker;
grant delete, insert, select, update on table erasing_pieces to quillpost_worker;
grant delete, insert, select, update on table erasures to quillpost_worker;
grant delete, insert, select, update on table fact_queue to quillpost_worker;
grant delete, insert, select, update on table facts to quillpost_worker;
grant delete, insert, select, update on table files to quillpost_app;
grant delete, insert, select, update on table files to quillpost_worker;
grant delete, insert, select, update on table giftcard_brands to quillpost_worker;
grant delete, insert, select, update on table giftcard_stock to quillpost_worker;
grant delete, insert, select, update on table giftcards to quillpost_worker;
grant delete, insert, select, update on table hourly_counts to quillpost_worker;
grant delete, insert, select, update on table idempotency_keys to quillpost_app;
grant delete, insert, select, update on table idempotency_keys to quillpost_worker;
grant delete, insert, select, update on table image_templates to quillpost_app;
grant delete, insert, select, update on table image_templates to quillpost_worker;
grant delete, insert, select, update on table import_rejects to quillpost_worker;
grant delete, insert, select, update on table imports to quillpost_app;
grant delete, insert, select, update on table imports to quillpost_worker;
grant delete, insert, select, update on table invitations to quillpost_app;
grant delete, insert, select, update on table invitations to quillpost_worker;
grant delete, insert, select, update on table items to quillpost_app;
grant delete, insert, select, update on table items to quillpost_worker;
grant delete, insert, select, update on table lead_density to quillpost_worker;
grant delete, insert, select, update on table lead_files to quillpost_worker;
grant delete, insert, select, update on table lead_purchases to quillpost_worker;
grant delete, insert, select, update on table lead_sources to quillpost_worker;
grant delete, insert, select, update on table leads to quillpost_worker;
grant delete, insert, select, update on table ledger_moves to quillpost_worker;
grant delete, insert, select, update on table mailers to quillpost_worker;
grant delete, insert, select, update on table mailing_lists to quillpost_app;
grant delete, insert, select, update on table mailing_lists to quillpost_worker;
grant delete, insert, select, update on table memberships to quillpost_app;
grant delete, insert, select, update on table memberships to quillpost_worker;
grant delete, insert, select, update on table merged_lists to quillpost_worker;
grant delete, insert, select, update on table message_templates to quillpost_app;
grant delete, insert, select, update on table message_templates to quillpost_worker;
grant delete, insert, select, update on table news_threads to quillpost_worker;
grant delete, insert, select, update on table notice_refusals to quillpost_worker;
grant delete, insert, select, update on table notices to quillpost_worker;
grant delete, insert, select, update on table oauth_clients to quillpost_worker;
grant delete, insert, select, update on table oauth_codes to quillpost_worker;
grant delete, insert, select, update on table oauth_grants to quillpost_app;
grant delete, insert, select, update on table oauth_grants to quillpost_worker;
grant delete, insert, select, update on table order_counts to quillpost_app;
grant delete, insert, select, update on table order_counts to quillpost_worker;
grant delete, insert, select, update on table order_verdicts to quillpost_worker;
grant delete, insert, select, update on table orders to quillpost_app;
grant delete, insert, select, update on table orders to quillpost_worker;
grant delete, insert, select, update on table own_hands to quillpost_worker;
grant delete, insert, select, update on table password_resets to quillpost_worker;
grant delete, insert, select, update on table people to quillpost_worker;
grant delete, insert, select, update on table prices to quillpost_worker;
grant delete, insert, select, update on table prints to quillpost_worker;
grant delete, insert, select, update on table procrastinate_events to quillpost_worker;
grant delete, insert, select, update on table procrastinate_jobs to quillpost_worker;
grant delete, insert, select, update on table procrastinate_periodic_defers to quillpost_worker;
grant delete, insert, select, update on table procrastinate_workers to quillpost_worker;
grant delete, insert, select, update on table rate_windows to quillpost_worker;
grant delete, insert, select, update on table received_events to quillpost_worker;
grant delete, insert, select, update on table recipients to quillpost_app;
grant delete, insert, select, update on table recipients to quillpost_worker;
grant delete, insert, select, update on table recipients_to_verify to quillpost_worker;
grant delete, insert, select, update on table recovery_codes to quillpost_worker;
grant delete, insert, select, update on table refresh_tokens to quillpost_worker;
grant delete, insert, select, update on table scan_news to quillpost_worker;
grant delete, insert, select, update on table sessions to quillpost_worker;
grant delete, insert, select, update on table signatures to quillpost_worker;
grant delete, insert, select, update on table stored_sends to quillpost_app;
grant delete, insert, select, update on table stored_sends to quillpost_worker;
grant delete, insert, select, update on table sub_accounts to quillpost_app;
grant delete, insert, select, update on table sub_accounts to quillpost_worker;
grant delete, insert, select, update on table tokens to quillpost_app;
grant delete, insert, select, update on table tokens to quillpost_worker;
grant delete, insert, select, update on table visit_inbox to quillpost_worker;
grant delete, insert, select, update on table visits to quillpost_worker;
grant delete, insert, select, update on table webhook_lanes to quillpost_worker;
grant delete, insert, select, update on table webhook_replays to quillpost_app;
grant delete, insert, select, update on table webhook_replays to quillpost_worker;
grant delete, insert, select, update on table webhooks to quillpost_app;
grant delete, insert, select, update on table webhooks to quillpost_worker;
grant delete, insert, select, update on table webhooks_gone to quillpost_worker;
grant delete, insert, update on table oauth_clients to quillpost_app;
grant execute on function authenticate(bytea,integer,timestamp with time zone) to public;
grant execute on function automations_waiting(bigint[]) to public;
grant execute on function await_search_backlog(text,bigint,bigint,bigint) to public;
grant execute on function bar_digest(bigint,text,text) to public;
grant execute on function barcode_of(text,text,bigint) to public;
grant execute on function bars_email(text) to public;
grant execute on function code_as_read(text) to public;
grant execute on function count_call(text,integer) to public;
grant execute on function count_hours() to public;
grant execute on function count_orders() to public;
grant execute on function count_recipients() to public;
grant execute on function counted_as(text,text) to public;
grant execute on function credit_of_account(text) to public;
grant execute on function drop_delivery_days(date) to quillpost_worker;
grant execute on function drop_import_staging(bigint) to quillpost_worker;
grant execute on function erased_key(bigint,text) to public;
grant execute on function files_of_order(bigint) to public;
grant execute on function forget_automation_due(bigint) to public;
grant execute on function forget_deliveries(timestamp with time zone) to quillpost_worker;
grant execute on function forget_gone_deliveries(integer) to quillpost_worker;
grant execute on function forget_move() to public;
grant execute on function handwriting_of_order(bigint) to public;
grant execute on function household_key(text,text) to public;
grant execute on function index_search_backlog() to quillpost_worker;
grant execute on function is_whole(text,text,text,text,text) to public;
grant execute on function item_words(bigint,text,bigint,text,text,text,text,text,text,text,text) to public;
grant execute on function jsonb_or_null(text) to public;
grant execute on function keep_credit() to public;
grant execute on function keep_item_words() to public;
grant execute on function keep_recipient_words() to public;
grant execute on function keep_waiting_there(bigint,bigint) to public;
grant execute on function lane_rest(bigint) to public;
grant execute on function list_now(bigint) to public;
grant execute on function make_import_staging(bigint) to quillpost_worker;
grant execute on function mover_of(text,text) to public;
grant execute on function new_short_code() to public;
grant execute on function note_address() to public;
grant execute on function note_gone_webhook() to public;
grant execute on function note_list_entry() to public;
grant execute on function note_list_move() to public;
grant execute on function note_merged_list(bigint,bigint) to public;
grant execute on function note_readdressed() to public;
grant execute on function note_scan() to public;
grant execute on function open_delivery_days(date,date) to quillpost_worker;
grant execute on function open_lane() to public;
grant execute on function procrastinate_cancel_job_v1(bigint,boolean,boolean) to public;
grant execute on function procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[]) to public;
grant execute on function procrastinate_defer_periodic_job_v2(character varying,character varying,character varying,character varying,integer,character varying,bigint,jsonb) to public;
grant execute on function procrastinate_fetch_job_v2(character varying[],bigint) to public;
grant execute on function procrastinate_finish_job_v1(bigint,procrastinate_job_status,boolean) to public;
grant execute on function procrastinate_notify_queue_abort_job_v1() to public;
grant execute on function procrastinate_notify_queue_job_inserted_v1() to public;
grant execute on function procrastinate_prune_stalled_workers_v1(double precision) to public;
grant execute on function procrastinate_register_worker_v1() to public;
grant execute on function procrastinate_retry_job_v1(bigint,timestamp with time zone,integer,character varying,character varying) to public;
grant execute on function procrastinate_retry_job_v2(bigint,timestamp with time zone,integer,character varying,character varying) to public;
grant execute on function procrastinate_trigger_abort_requested_events_procedure_v1() to public;
grant execute on function procrastinate_trigger_function_scheduled_events_v1() to public;
grant execute on function procrastinate_trigger_function_status_events_insert_v1() to public;
grant execute on function procrastinate_trigger_function_status_events_update_v1() to public;
grant execute on function procrastinate_unlink_periodic_defers_v1() to public;
grant execute on function procrastinate_unregister_worker_v1(bigint) to public;
grant execute on function procrastinate_update_heartbeat_v1(bigint) to public;
grant execute on function recipient_words(bigint,bigint,text,text,text,text,text,text,text,text) to public;
grant execute on function refuse_change() to public;
grant execute on function search_query(text,text) to public;
grant execute on function search_text(text) to public;
grant execute on function search_vector(text,text) to public;
grant execute on function suppressed_items(bigint[]) to quillpost_worker;
grant execute on function suppressed_places(bigint,text,text[],text[],text[]) to public;
grant execute on function suppressed_recipients(bigint,text,bigint[]) to public;
grant execute on function texts_of(text) to public;
grant execute on function told_apart(text,text,text) to public;
grant execute on function wake_lane(bigint,timestamp with time zone,boolean) to public;
grant insert on table fact_queue to quillpost_app;
grant insert on table procrastinate_events to quillpost_app;
grant insert, select on table audit_log to quillpost_app;
grant insert, select on table facts to quillpost_app;
grant insert, select on table lead_purchases to quillpost_app;
grant insert, select on table ledger_moves to quillpost_app;
grant insert, select on table procrastinate_jobs to quillpost_app;
grant insert, select, update on table own_hands to quillpost_app;
grant insert, select, update on table signatures to quillpost_app;
grant select on column giftcards.account_id to quillpost_app;
grant select on column giftcards.asked_at to quillpost_app;
grant select on column giftcards.brand to quillpost_app;
grant select on column giftcards.cents to quillpost_app;
grant select on column giftcards.claimed_at to quillpost_app;
grant select on column giftcards.issued_at to quillpost_app;
grant select on column giftcards.item_id to quillpost_app;
grant select on column giftcards.mode to quillpost_app;
grant select on column giftcards.opened_at to quillpost_app;
grant select on column giftcards.order_id to quillpost_app;
grant select on column giftcards.report to quillpost_app;
grant select on column giftcards.reported_at to quillpost_app;
grant select on column giftcards.sub_account_id to quillpost_app;
grant select on column giftcards.visited_at to quillpost_app;
grant select on column oauth_clients.account_id to quillpost_app;
grant select on column oauth_clients.client_id to quillpost_app;
grant select on column oauth_clients.created_at to quillpost_app;
grant select on column oauth_clients.id to quillpost_app;
grant select on column oauth_clients.is_public to quillpost_app;
grant select on column oauth_clients.name to quillpost_app;
grant select on column oauth_clients.person_id to quillpost_app;
grant select on column oauth_clients.redirect_uris to quillpost_app;
grant select on column oauth_clients.scopes to quillpost_app;
grant select on column oauth_clients.secret_hint to quillpost_app;
grant select on column oauth_clients.updated_at to quillpost_app;
grant select on column oauth_clients.website to quillpost_app;
grant select on column people.created_at to quillpost_app;
grant select on column people.email to quillpost_app;
grant select on column people.id to quillpost_app;
grant select on column people.name to quillpost_app;
grant select on column people.totp_since to quillpost_app;
grant select on table account_credit to quillpost_app;
grant select on table account_spending to quillpost_app;
grant select on table accounts to quillpost_app;
grant select on table bars to quillpost_worker;
grant select on table giftcard_brands to quillpost_app;
grant select on table hourly_counts to quillpost_app;
grant select on table item_search to quillpost_worker;
grant select on table lead_density to quillpost_app;
grant select on table lead_sources to quillpost_app;
grant select on table leads to quillpost_app;
grant select on table prices to quillpost_app;
grant select on table recipient_search to quillpost_worker;
grant select on table search_backlog to quillpost_worker;
grant select on table visits to quillpost_app;
grant select, update on column giftcards.reissued_as to quillpost_app;
grant select, update on column giftcards.status to quillpost_app;
grant select, update on column giftcards.void_reason to quillpost_app;
grant select, update on column giftcards.voided_at to quillpost_app;
grant select, usage on sequence accounts_id_seq to quillpost_app;
grant select, usage on sequence accounts_id_seq to quillpost_worker;
grant select, usage on sequence audit_log_id_seq to quillpost_app;
grant select, usage on sequence audit_log_id_seq to quillpost_worker;
grant select, usage on sequence automation_due_id_seq to quillpost_app;
grant select, usage on sequence automation_due_id_seq to quillpost_worker;
grant select, usage on sequence automations_id_seq to quillpost_app;
grant select, usage on sequence automations_id_seq to quillpost_worker;
grant select, usage on sequence barred_digests_id_seq to quillpost_app;
grant select, usage on sequence barred_digests_id_seq to quillpost_worker;
grant select, usage on sequence batches_id_seq to quillpost_app;
grant select, usage on sequence batches_id_seq to quillpost_worker;
grant select, usage on sequence carrier_scans_id_seq to quillpost_app;
grant select, usage on sequence carrier_scans_id_seq to quillpost_worker;
grant select, usage on sequence delivery_ids to quillpost_app;
grant select, usage on sequence delivery_ids to quillpost_worker;
grant select, usage on sequence do_not_mail_inbox_id_seq to quillpost_app;
grant select, usage on sequence do_not_mail_inbox_id_seq to quillpost_worker;
grant select, usage on sequence erasures_id_seq to quillpost_app;
grant select, usage on sequence erasures_id_seq to quillpost_worker;
grant select, usage on sequence facts_id_seq to quillpost_app;
grant select, usage on sequence facts_id_seq to quillpost_worker;
grant select, usage on sequence giftcard_stock_id_seq to quillpost_app;
grant select, usage on sequence giftcard_stock_id_seq to quillpost_worker;
grant select, usage on sequence image_templates_id_seq to quillpost_app;
grant select, usage on sequence image_templates_id_seq to quillpost_worker;
grant select, usage on sequence imports_id_seq to quillpost_app;
grant select, usage on sequence imports_id_seq to quillpost_worker;
grant select, usage on sequence invitations_id_seq to quillpost_app;
grant select, usage on sequence invitations_id_seq to quillpost_worker;
grant select, usage on sequence items_id_seq to quillpost_app;
grant select, usage on sequence items_id_seq to quillpost_worker;
grant select, usage on sequence lead_purchases_id_seq to quillpost_app;
grant select, usage on sequence lead_purchases_id_seq to quillpost_worker;
grant select, usage on sequence lead_sources_id_seq to quillpost_app;
grant select, usage on sequence lead_sources_id_seq to quillpost_worker;
grant select, usage on sequence leads_id_seq to quillpost_app;
grant select, usage on sequence leads_id_seq to quillpost_worker;
grant select, usage on sequence ledger_moves_id_seq to quillpost_app;
grant select, usage on sequence ledger_moves_id_seq to quillpost_worker;
grant select, usage on sequence mailing_lists_id_seq to quillpost_app;
grant select, usage on sequence mailing_lists_id_seq to quillpost_worker;
grant select, usage on sequence memberships_id_seq to quillpost_app;
grant select, usage on sequence memberships_id_seq to quillpost_worker;
grant select, usage on sequence message_templates_id_seq to quillpost_app;
grant select, usage on sequence message_templates_id_seq to quillpost_worker;
grant select, usage on sequence notices_id_seq to quillpost_app;
grant select, usage on sequence notices_id_seq to quillpost_worker;
grant select, usage on sequence oauth_clients_id_seq to quillpost_app;
grant select, usage on sequence oauth_clients_id_seq to quillpost_worker;
grant select, usage on sequence oauth_grants_id_seq to quillpost_app;
grant select, usage on sequence oauth_grants_id_seq to quillpost_worker;
grant select, usage on sequence order_verdicts_id_seq to quillpost_app;
grant select, usage on sequence order_verdicts_id_seq to quillpost_worker;
grant select, usage on sequence orders_id_seq to quillpost_app;
grant select, usage on sequence orders_id_seq to quillpost_worker;
grant select, usage on sequence people_id_seq to quillpost_app;
grant select, usage on sequence people_id_seq to quillpost_worker;
grant select, usage on sequence prices_id_seq to quillpost_app;
grant select, usage on sequence prices_id_seq to quillpost_worker;
grant select, usage on sequence procrastinate_events_id_seq to quillpost_app;
grant select, usage on sequence procrastinate_events_id_seq to quillpost_worker;
grant select, usage on sequence procrastinate_jobs_id_seq to quillpost_app;
grant select, usage on sequence procrastinate_jobs_id_seq to quillpost_worker;
grant select, usage on sequence procrastinate_periodic_defers_id_seq to quillpost_app;
grant select, usage on sequence procrastinate_periodic_defers_id_seq to quillpost_worker;
grant select, usage on sequence procrastinate_workers_id_seq to quillpost_app;
grant select, usage on sequence procrastinate_workers_id_seq to quillpost_worker;
grant select, usage on sequence received_events_id_seq to quillpost_app;
grant select, usage on sequence received_events_id_seq to quillpost_worker;
grant select, usage on sequence recipients_id_seq to quillpost_app;
grant select, usage on sequence recipients_id_seq to quillpost_worker;
grant select, usage on sequence scan_news_id_seq to quillpost_app;
grant select, usage on sequence scan_news_id_seq to quillpost_worker;
grant select, usage on sequence sessions_id_seq to quillpost_app;
grant select, usage on sequence sessions_id_seq to quillpost_worker;
grant select, usage on sequence sub_accounts_id_seq to quillpost_app;
grant select, usage on sequence sub_accounts_id_seq to quillpost_worker;
grant select, usage on sequence tokens_id_seq to quillpost_app;
grant select, usage on sequence tokens_id_seq to quillpost_worker;
grant select, usage on sequence visit_inbox_id_seq to quillpost_app;
grant select, usage on sequence visit_inbox_id_seq to quillpost_worker;
grant select, usage on sequence visits_id_seq to quillpost_app;
grant select, usage on sequence visits_id_seq to quillpost_worker;
grant select, usage on sequence webhook_replays_id_seq to quillpost_app;
grant select, usage on sequence webhook_replays_id_seq to quillpost_worker;
grant select, usage on sequence webhooks_id_seq to quillpost_app;
grant select, usage on sequence webhooks_id_seq to quillpost_worker;
grant update on column accounts.company to quillpost_app;
grant update on column accounts.embed_origins to quillpost_app;
grant update on column accounts.name to quillpost_app;
grant update on column accounts.return_address to quillpost_app;
grant update on column accounts.return_address2 to quillpost_app;
grant update on column accounts.return_city to quillpost_app;
grant update on column accounts.return_name to quillpost_app;
grant update on column accounts.return_postal_code to quillpost_app;
grant update on column accounts.return_state to quillpost_app;
grant update on column accounts.updated_at to quillpost_app;
grant usage on schema public to public;
-- giftcard_brands has 20 rows
-- prices has 24 rows
