"""Ten thousand guesses at one password: what they cost us, and whom they shut out."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from quillpost.accounts.rate_limits.service import FullBucketCache, RateLimitBucket
from quillpost.accounts.users.sign_in import SignInVisitor, sign_in
from quillpost.app.container import Container
from support.browser_sessions import make_user
from support.orders import open_account
from support.sign_in import DANA, HOME, audited_acts, count_hashes, sign_in_as

GUESSES = 10_000


def test_ten_thousand_guesses_cost_ten_hashes_and_shut_nobody_out(container: Container) -> None:
    account = open_account(container).account_id
    make_user(container, account, DANA)
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)

    def guess(number: int) -> str:
        # From another network each time: nothing but the e-mail is the same.
        stranger = SignInVisitor(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
        return sign_in_as(container, DANA, f"guess number {number}", stranger).outcome

    with count_hashes() as hashes, ThreadPoolExecutor(4) as guessers:
        outcomes = Counter(guessers.map(guess, range(GUESSES)))
    assert outcomes == {"wrong": 10, "throttled": GUESSES - 10}
    assert len(hashes) == 10

    assert sign_in_as(container, visitor=SignInVisitor("198.51.100.9")).outcome == "throttled", (
        "and be it the right one"
    )
    assert sign_in_as(container, visitor=known).outcome == "in"
    assert audited_acts(container, account) == ["sign_in", "sign_in.refused", "sign_in"]


def test_several_servers_count_together(container: Container) -> None:
    make_user(container, open_account(container).account_id, DANA)
    servers = [replace(container.sign_in_context, full_buckets=FullBucketCache(recheck_seconds=0)) for _ in range(3)]

    def guess(number: int) -> str:
        stranger = SignInVisitor(f"10.0.0.{number}")
        return sign_in(servers[number % 3], DANA, "a guess", stranger, now=container.clock()).outcome

    with count_hashes() as hashes, ThreadPoolExecutor(6) as guessers:
        outcomes = Counter(guessers.map(guess, range(150)))
    assert outcomes == {"wrong": 10, "throttled": 140}
    assert len(hashes) == 10


def test_cached_full_buckets_are_rechecked_after_a_while() -> None:
    bucket = [RateLimitBucket("x", 10, 900)]
    hasty, patient = FullBucketCache(recheck_seconds=0), FullBucketCache(recheck_seconds=60, max_entries=2)
    for spent in (hasty, patient):
        spent.add(bucket, 900)
    assert hasty.get_wait_seconds(bucket) == 0
    assert patient.get_wait_seconds(bucket) == 900
    assert patient.get_wait_seconds([RateLimitBucket("y", 10, 900)]) == 0
    for key in "ab":
        patient.add([RateLimitBucket(key, 10, 900)], 900)
    assert patient.get_wait_seconds(bucket) == 0, "only so many are remembered"
