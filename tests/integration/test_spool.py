"""A spool with a broker that is killed and an application that is killed: what `send` returned from is there."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.consumer_support import PATIENCE_S, Cluster
from tests.unit.present import present
from tidelog.client import AsyncProducerSpool, Consumer, ProducerSpool, RecordTooLarge
from tidelog.testing import Broker

QUICK: dict[str, Any] = {"delivery_timeout_ms": 300, "request_timeout_ms": 200, "max_block_ms": 300}
RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "spool.md"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(process=True) as running:
        yield running


def stored(broker: Broker, topic: str, count: int) -> list[str]:
    """The values of the first `count` records of a topic, and of those that come with them."""
    found: list[str] = []
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while len(found) < count:
            records = consumer.poll(PATIENCE_S)
            assert len(records), f"{len(found)} of {count} came"
            found += [present(record.value).decode() for record in records]
    return found


def test_what_an_outage_kept_back_is_sent_in_order_when_the_broker_is_back(broker: Broker, tmp_path: Path) -> None:
    topic = Cluster(broker.bootstrap_servers).topic()
    with ProducerSpool(tmp_path, bootstrap_servers=broker.bootstrap_servers, **QUICK) as spool:
        while spool.send(topic, b"0", key=b"key") is None:
            spool.drained(PATIENCE_S)
        broker.kill()
        assert [spool.send(topic, str(number).encode(), key=b"key") for number in range(1, 6)] == [None] * 5
        assert spool.waiting == 5
        broker.restart()
        spool.drained(PATIENCE_S)
    values = stored(broker, topic, 6)
    assert list(dict.fromkeys(values)) == ["0", "1", "2", "3", "4", "5"]


def test_an_application_that_is_killed_loses_nothing_that_send_returned_from(broker: Broker, tmp_path: Path) -> None:
    topic = Cluster(broker.bootstrap_servers).topic()
    broker.kill()
    arguments = [broker.bootstrap_servers, topic, str(tmp_path), "20"]
    command = [sys.executable, "-m", "tests.integration.spool_application", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as application:
        assert application.stdout is not None
        returned = [application.stdout.readline().split() for _ in range(7)]
        application.kill()
    assert returned == [[str(number), "kept"] for number in range(7)]
    broker.restart()

    async def send_the_rest() -> int:
        async with AsyncProducerSpool(tmp_path, bootstrap_servers=broker.bootstrap_servers) as spool:
            count = spool.waiting
            await spool.drained(PATIENCE_S)
            return count

    count = asyncio.run(send_the_rest())
    assert count >= 7
    assert list(dict.fromkeys(stored(broker, topic, count))) == [str(number) for number in range(count)]


def test_what_no_later_attempt_can_cure_is_raised(broker: Broker, tmp_path: Path) -> None:
    with ProducerSpool(tmp_path, bootstrap_servers=broker.bootstrap_servers, max_request_size=100) as spool:
        while spool.send("topic", b"first", key=b"key") is None:
            spool.drained(PATIENCE_S)
        with pytest.raises(RecordTooLarge):
            spool.send("topic", b"x" * 1000, key=b"key")
        assert spool.waiting == 0


def test_the_recipe_runs(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace("localhost:9092", broker.bootstrap_servers), str(RECIPE), "exec"), {})
    assert re.search(r"^(stored|kept in the spool) \d$", capsys.readouterr().out, re.MULTILINE)
    assert (tmp_path / "orders-spool" / "records.log").exists()
