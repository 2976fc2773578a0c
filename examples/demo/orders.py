"""Orders for the demo, at a steady rate, with a few that make trouble.

Four orders are not like the others:

    no JSON           fails whenever it is tried, and is a dead letter after the last time
    an order of none  is refused for good, and is a dead letter at once
    an unknown buyer  is tried again, in vain
    a new buyer       orders before the record of the customer arrives: tried again, it comes out
"""

import json
import threading
import time
from itertools import islice
from typing import Any, Final

from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.producer import Producer
from tidelog.examples import data
from tidelog.examples.data import Event
from tidelog.examples.topics import send_events

CUSTOMERS: Final = 200
DEAD: Final = 3
_NEW_BUYER: Final = "cust-new"
_FIRST: Final = 100
_STEP_S: Final = 0.05
_STRAY: Final = "cust-stray"


class OrderStream(threading.Thread):
    """Sends orders from a thread of its own. `sent` may be read at any time; `error` is why it ended early."""

    def __init__(self, servers: str, seconds: int, rate: int) -> None:
        super().__init__(name="orders", daemon=True)
        self.total = seconds * rate
        self.sent = 0
        self.error: Exception | None = None
        self._servers = servers
        self._rate = rate
        self._stopped = threading.Event()
        self._events = data.orders(self.total, customer_count=CUSTOMERS)

    @property
    def expected(self) -> set[int]:
        """The orders that must come out, by number: all but the dead ones."""
        dead = {number for number, kind in self._trouble.items() if kind != "new buyer"}
        return set(range(self.total)) - dead

    @property
    def _trouble(self) -> dict[int, str]:
        """Which orders make trouble: one in each fifth."""
        kinds = ("no JSON", "none", "stray", "new buyer")
        return {self.total * (index + 1) // 5: kind for index, kind in enumerate(kinds)}

    def send_first(self) -> int:
        """Send the first few orders, before the thread is started; how many they are."""
        count = min(_FIRST, self.total // 5)
        self.sent += send_events(self._servers, islice(self._events, count))
        return count

    def on_retry(self, failed: ConsumerRecord) -> None:
        """An order has failed for the first time. If it is the new buyer's, the record of the customer arrives now."""
        if failed.key != _NEW_BUYER.encode():
            return
        record = {"customer_id": _NEW_BUYER, "country": "PT", "tier": "basic", "since": "2026-01-01"}
        send_events(self._servers, [Event("customers", _NEW_BUYER.encode(), _bytes(record))])

    def run(self) -> None:
        try:
            with Producer({"bootstrap.servers": self._servers, "linger.ms": 20}) as producer:
                self._send_all(producer)
                producer.flush()
        except Exception as error:  # noqa: BLE001 - shown by whoever waits for the thread
            self.error = error

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()
        if self.is_alive():
            self.join()

    def _send_all(self, producer: Producer) -> None:
        started, first, trouble = time.monotonic(), self.sent, self._trouble
        while self.sent < self.total and not self._stopped.is_set():
            due = min(self.total, first + int((time.monotonic() - started) * self._rate) + 1)
            for number in range(self.sent, due):
                event = next(self._events)
                if number in trouble:
                    event = _made_worse(event, trouble[number])
                producer.send(event.topic, event.value, key=event.key)
            self.sent = due
            self._stopped.wait(_STEP_S)


def _made_worse(event: Event, kind: str) -> Event:
    order: dict[str, Any] = json.loads(event.value)
    if kind == "no JSON":
        return event._replace(value=event.value[: len(event.value) // 2])
    if kind == "none":
        return event._replace(value=_bytes({**order, "quantity": 0}))
    buyer = _STRAY if kind == "stray" else _NEW_BUYER
    return event._replace(key=buyer.encode(), value=_bytes({**order, "customer_id": buyer}))


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
