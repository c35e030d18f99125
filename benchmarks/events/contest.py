"""What is told against what nobody could do without: deliveries, fan-out, redirects."""

from typing import Any

from benchmarks.events import deliveries, fan_out, redirects
from benchmarks.events.scenario import send
from benchmarks.fulfil.office import open_office
from benchmarks.harness import machine

ORDERS, PIECES = 2, 4_000
FACTS = 1_000_000
FEW, MANY = 5, 100
LEAST_DELIVERED, LEAST_FANNED_OUT = 0.6, 0.5
MOST_BESIDE_SILENCE, MOST_OF_A_REDIRECT = 2.0, 2.5


def run() -> dict[str, Any]:
    with open_office() as office:
        # The receivers are at home.
        office.more_settings["QUILLPOST_ALLOW_PRIVATE_URLS"] = "true"
        with office.serving():
            for number in range(ORDERS):
                send(office, PIECES, first=number * PIECES)
        delivered = deliveries.compared(office, facts=ORDERS * PIECES, endpoints=FEW, rounds=5)
        silent = deliveries.beside_silence(office, facts=200, endpoints=MANY, rounds=3)
        fanned_out = fan_out.compared(office, facts=FACTS, rounds=3)
        redirected = redirects.compared(office)
        memory = {"ours": office.watch.ours, "PostgreSQL": office.watch.postgres}
    result: dict[str, Any] = {
        "name": "events",
        "unit": "shares of a bare rate; times as long; times the processor time",
        "machine": machine(),
        "ours": delivered["events a second"]["ours"],
        "peers": {},
        "limit": delivered["events a second"]["bare"],
        "ratios": {
            "deliveries against a bare aiohttp loop": delivered["share of the bare rate"],
            "the healthy half, beside a half that hangs": silent["ratio"],
            f"{FACTS:,} facts against a bare INSERT ... SELECT": fanned_out["share of the bare rate"],
            "a redirect against a bare one": max(redirected["times a bare redirect"].values()),
        },
        "delivered": delivered,
        "beside silence": silent,
        "fanned out": fanned_out,
        "redirected": redirected,
        "memory": memory,
    }
    result["claims"] = _claims(result["ratios"])
    return result


def _claims(ratios: dict[str, float]) -> list[dict[str, object]]:
    delivered, silent, fanned_out, redirected = ratios.values()
    return [
        _claim(
            f"events are delivered at {LEAST_DELIVERED:.0%} of a bare aiohttp loop's rate or more",
            delivered >= LEAST_DELIVERED,
            f"{delivered:.0%}",
        ),
        _claim(
            f"with half of {MANY} endpoints hanging the others take at most {MOST_BESIDE_SILENCE} x as long",
            silent <= MOST_BESIDE_SILENCE,
            f"{silent:.2f} x",
        ),
        _claim(
            f"{FACTS:,} facts fan out at {LEAST_FANNED_OUT:.0%} of a bare INSERT ... SELECT or more",
            fanned_out >= LEAST_FANNED_OUT,
            f"{fanned_out:.0%}",
        ),
        _claim(
            f"a scan that is stored takes at most {MOST_OF_A_REDIRECT} x a bare redirect's processor time",
            redirected <= MOST_OF_A_REDIRECT,
            f"{redirected:.2f} x",
        ),
    ]


def _claim(what: str, holds: bool, measured: str) -> dict[str, object]:
    return {"claim": what, "measured": measured, "holds": holds}
