"""Events such as the examples live on: made up, of real shapes, the same for the same seed.

Every function yields records in the order in which they reach the topic. Times inside the events lie a fixed step apart
from `START_MS` on, so that results can be checked; the records have the current time, so that
retention does not delete them. Called by the examples' own command, the demo and the tests.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

START_MS: Final = 1_767_225_600_000
"""The first moment of 2026, UTC."""

COUNTRIES: Final = ("BR", "CA", "DE", "ES", "FR", "GB", "IN", "JP", "PT", "US")
SKUS: Final[Mapping[str, int]] = {
    "anchor-12kg": 8900,
    "chart-north-sea": 2400,
    "fender-small": 1550,
    "flare-set": 5200,
    "lifejacket-m": 7450,
    "rope-10m": 1890,
    "vhf-radio": 15900,
}
"""What is sold, and for how many cents."""
STATIONS: Final = ("brest", "cuxhaven", "halifax", "honolulu", "lisbon", "qingdao", "sydney", "vigo")


class Event(NamedTuple):
    """One record of a topic."""

    topic: str
    key: bytes
    value: bytes


def customers(count: int = 100, *, seed: int = 1) -> Iterator[Event]:
    """Customers as a compacted topic holds them: the latest of each counts."""
    rng = random.Random(seed)
    for number in range(count):
        customer = {
            "customer_id": customer_id(number),
            "country": rng.choice(COUNTRIES),
            "tier": rng.choices(("basic", "plus", "pro"), (6, 3, 1))[0],
            "since": f"20{rng.randrange(15, 26)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
        }
        yield _event("customers", customer_id(number), customer)


def orders(count: int = 1000, *, customer_count: int = 100, seed: int = 2, first: int = 0) -> Iterator[Event]:
    """Orders of customers that `customers` makes, a few a customer, keyed by customer, 50 ms apart."""
    rng = random.Random(seed)
    for number in range(first, first + count):
        buyer = customer_id(int(customer_count * rng.random() ** 2))
        sku = rng.choice(tuple(SKUS))
        order = {
            "order_id": number,
            "customer_id": buyer,
            "sku": sku,
            "quantity": rng.choices((1, 2, 3, 10), (70, 20, 8, 2))[0],
            "unit_price_cents": SKUS[sku],
            "placed_at_ms": START_MS + 50 * number,
        }
        yield _event("orders", buyer, order)


def odd_orders(*, first: int = 0) -> Iterator[Event]:
    """Three orders that cannot be enriched: without quantity, of an unknown customer, and with truncated JSON."""
    none, stray, broken = orders(3, first=first)
    yield none._replace(value=_json({**json.loads(none.value), "quantity": 0}))
    stray_id = "cust-stray"
    yield stray._replace(key=stray_id.encode(), value=_json({**json.loads(stray.value), "customer_id": stray_id}))
    yield broken._replace(value=broken.value[: len(broken.value) // 2])


def tide_levels(minutes: int = 180, *, seed: int = 3, late_every: int = 17) -> Iterator[Event]:
    """What gauges report, each once a minute; every `late_every`-th reading arrives some minutes late."""
    rng = random.Random(seed)
    arrivals: list[tuple[int, int, str, dict[str, Any]]] = []
    for number in range(minutes * len(STATIONS)):
        minute, station = divmod(number, len(STATIONS))
        at_ms = START_MS + 60_000 * minute
        level = round(300 + 200 * _tide(minute, station) + rng.gauss(0, 5), 1)
        delay_ms = rng.randrange(60_000, 240_000) if number % late_every == 0 else rng.randrange(0, 5_000)
        reading = {"station": STATIONS[station], "level_cm": level, "at_ms": at_ms}
        arrivals.append((at_ms + delay_ms, number, STATIONS[station], reading))
    for _, _, name, reading in sorted(arrivals, key=lambda each: each[:2]):
        yield _event("tide-levels", name, reading)


def payments(count: int = 1000, *, account_count: int = 20, seed: int = 4, first: int = 0) -> Iterator[Event]:
    """Money in and out of accounts, keyed by account, 100 ms apart."""
    rng = random.Random(seed)
    for number in range(first, first + count):
        account = f"acc-{rng.randrange(account_count):04d}"
        payment = {
            "payment_id": number,
            "account": account,
            "amount_cents": round(rng.lognormvariate(8, 1)) * rng.choice((1, 1, -1)),
            "day": f"2026-01-{1 + number // 100 % 28:02d}",
            "at_ms": START_MS + 100 * number,
        }
        yield _event("payments", account, payment)


def customer_changes(
    count: int = 500, *, row_count: int = 40, seed: int = 5, repeat_every: int = 25
) -> Iterator[Event]:
    """Changes of a database's table as change data capture sends them: before, after, operation, position in its log.

    Every `repeat_every`-th is sent twice, as after a restart of the connector.
    """
    rng = random.Random(seed)
    rows: dict[str, dict[str, Any] | None] = {}
    for position in range(1, count + 1):
        row_id = f"{rng.randrange(row_count):05d}"
        before = rows.get(row_id)
        operation = "c" if before is None else rng.choices("ud", (9, 1))[0]
        after = None if operation == "d" else _changed(before, row_id, rng)
        rows[row_id] = after
        change = {"op": operation, "lsn": position, "ts_ms": START_MS + position, "before": before, "after": after}
        for _ in range(2 if position % repeat_every == 0 else 1):
            yield _event("db.customers", row_id, change)


def customer_id(number: int) -> str:
    """The name of customer `number`."""
    return f"cust-{number:05d}"


def by_topic(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Events sorted into their topics, in order."""
    sorted_out: dict[str, list[Event]] = {}
    for event in events:
        sorted_out.setdefault(event.topic, []).append(event)
    return sorted_out


def _event(topic: str, key: str, value: Mapping[str, Any]) -> Event:
    return Event(topic, key.encode(), _json(value))


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _changed(before: Mapping[str, Any] | None, row_id: str, rng: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = (
        dict(before) if before is not None else {"id": row_id, "email": f"{row_id}@example.org", "city": "Vigo"}
    )
    row["city"] = rng.choice(("Brest", "Lisbon", "Porto", "Vigo"))
    row["points"] = int(row.get("points", 0)) + rng.randrange(100)
    return row


def _tide(minute: int, station: int) -> float:
    """Two high waters a day, each station with its own phase, as a wave from -1 to 1 without trigonometry."""
    phase = (minute / 745 + station / len(STATIONS)) % 1
    return 1 - abs(4 * phase - 2)
