"""Ten thousand guesses at one password: what they cost us, and whom they shut out."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from front_door import DANA, HOME, acts_of, come, hashes_counted
from placing import open_account
from signed_in import make_person

from quillpost.accounts.users.rate_limits import Bucket, Spent
from quillpost.accounts.users.sign_in import Visitor, sign_in
from quillpost.app.container import Parts

GUESSES = 10_000


def test_ten_thousand_guesses_cost_ten_hashes_and_shut_nobody_out(parts: Parts) -> None:
    account = open_account(parts).account_id
    make_person(parts, account, DANA)
    known = replace(HOME, known=come(parts).known)

    def guess(number: int) -> str:
        # From another network each time: nothing but the e-mail is the same.
        stranger = Visitor(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
        return come(parts, DANA, f"guess number {number}", stranger).outcome

    with hashes_counted() as hashes, ThreadPoolExecutor(4) as guessers:
        outcomes = Counter(guessers.map(guess, range(GUESSES)))
    assert outcomes == {"wrong": 10, "throttled": GUESSES - 10}
    assert len(hashes) == 10

    assert come(parts, visitor=Visitor("198.51.100.9")).outcome == "throttled", "and be it the right one"
    assert come(parts, visitor=known).outcome == "in"
    assert acts_of(parts, account) == ["sign_in", "sign_in.refused", "sign_in"]


def test_several_servers_count_together(parts: Parts) -> None:
    make_person(parts, open_account(parts).account_id, DANA)
    servers = [replace(parts.people, spent=Spent(seconds=0)) for _ in range(3)]

    def guess(number: int) -> str:
        stranger = Visitor(f"10.0.0.{number}")
        return sign_in(servers[number % 3], DANA, "a guess", stranger, now=parts.clock()).outcome

    with hashes_counted() as hashes, ThreadPoolExecutor(6) as guessers:
        outcomes = Counter(guessers.map(guess, range(150)))
    assert outcomes == {"wrong": 10, "throttled": 140}
    assert len(hashes) == 10


def test_what_is_remembered_is_asked_again_after_a_while() -> None:
    bucket = [Bucket("x", 10, 900)]
    hasty, patient = Spent(seconds=0), Spent(seconds=60, most=2)
    for spent in (hasty, patient):
        spent.note(bucket, 900)
    assert hasty.wait(bucket) == 0
    assert patient.wait(bucket) == 900
    assert patient.wait([Bucket("y", 10, 900)]) == 0
    for key in "ab":
        patient.note([Bucket(key, 10, 900)], 900)
    assert patient.wait(bucket) == 0, "only so many are remembered"
