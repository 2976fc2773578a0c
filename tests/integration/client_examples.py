"""Runs the examples of docs/clients.md as they stand, but for the addresses and for loops without an end."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tidelog.client import Consumer
from tidelog.testing.registry import SchemaRegistryServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


class Enough(Exception):
    """The example has shown what it does."""


@contextmanager
def until_idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Consumers that read on and on raise `Enough` when they have read everything; it ends the block."""
    poll = Consumer.poll

    def poll_or_end(self: Consumer, timeout_s: float = 1.0) -> Any:
        records = poll(self, min(timeout_s, 0.1))
        if not records and self.assignment and all(self.lag(each) == 0 for each in self.assignment):
            raise Enough
        return records

    with monkeypatch.context() as patched, suppress(Enough):
        patched.setattr(Consumer, "poll", poll_or_end)
        yield


def run_examples(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every example against the brokers at `servers`; consumers that read on and on end when they are idle."""
    with SchemaRegistryServer() as registry:
        for example in EXAMPLES:
            code = example.replace("localhost:9092", servers).replace("http://localhost:8081", registry.url)
            with until_idle(monkeypatch):
                exec(compile(code, str(DOCUMENT), "exec"), {"__name__": "example"})


def check_output(printed: str) -> None:
    """What the examples print shows that they read what they wrote."""
    assert "b'3 apples'" in printed
    assert "billing" in printed
    assert "{'id': 'a-1', 'pieces': 3}" in printed
    assert re.search(r"value: binary.*offset: int64", printed, re.DOTALL), "a table of the columns that were asked for"
