"""The examples of docs/clients.md, run as they stand but for the address, and for loops without an end."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.client import Consumer
from tidelog.testing import Broker

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


class Enough(Exception):
    """The example has shown what it does."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"num.partitions": 2}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def ends_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Consumer.poll

    def poll_or_end(self: Consumer, timeout_s: float = 1.0) -> Any:
        records = poll(self, min(timeout_s, 0.1))
        if not records and self.assignment:
            raise Enough
        return records

    monkeypatch.setattr(Consumer, "poll", poll_or_end)


@pytest.mark.usefixtures("ends_when_idle")
def test_the_examples_run(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    for example in EXAMPLES:
        try:
            exec(compile(example.replace("localhost:9092", servers), str(DOCUMENT), "exec"), {"__name__": "example"})
        except Enough:
            continue
    told = capsys.readouterr().out
    assert "b'3 apples'" in told
    assert "billing" in told
    assert re.search(r"value: binary.*offset: int64", told, re.DOTALL), "a table of the columns that were asked for"
