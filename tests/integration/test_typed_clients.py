"""What mypy makes of programs that use the clients: types follow from serializers, and misspelt settings are found."""

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

PROGRAM = """
from tidelog.client import AsyncConsumer, AsyncProducer, Consumer, Producer

class Order: ...


def encode(order: Order) -> bytes: raise NotImplementedError
def decode(data: bytes) -> Order: raise NotImplementedError

class Ints:
    def serialize(self, topic: str, value: int, /, headers: list[tuple[str, bytes | None]]) -> bytes:
        return b""

    def deserialize(self, topic: str, data: bytes) -> int:
        return 0

producer = Producer(bootstrap_servers="a:1", value_serializer=encode, key_serializer=Ints(), linger_ms=5)
reveal_type(producer)
producer.send("orders", Order(), 7)
reveal_type(Producer({"bootstrap.servers": "a:1"}))
consumer = Consumer(bootstrap_servers="a:1", value_deserializer=decode, key_deserializer=Ints())
for record in consumer.poll(1):
    reveal_type(record.key)
    reveal_type(record.value)
async def work() -> None:
    async with AsyncProducer(bootstrap_servers=["a:1"], key_serializer=str.encode) as producer:
        reveal_type(producer)
    async for record in AsyncConsumer(bootstrap_servers="a:1"):
        reveal_type(record.value)
"""
MISTAKES = """
from tidelog.client import Admin, Consumer, Producer
Producer(bootstrap_servers="a:1", linger_sm=5)
Producer(bootstrap_servers="a:1", acks="some")
Consumer(bootstrap_servers="a:1", max_poll_records="many")
Admin(bootstrap_servers="a:1", linger_ms=5)
Producer(bootstrap_servers="a:1", value_serializer=str.encode).send("topic", b"bytes")
"""


def _check(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    found, failed, _ = api.run(["--strict", "--no-error-summary", "--hide-error-context", str(path)])
    assert not failed
    return [line.split(":", 1)[1] for line in found.splitlines() if ": note: See" not in line]


@pytest.mark.long
def test_types_follow_from_serializers_and_mistakes_are_found(tmp_path: Path) -> None:
    found = _check(tmp_path / "program.py", PROGRAM)
    revealed = [line.split('"')[1].replace("tidelog.client.", "").replace("program.", "") for line in found]
    assert revealed == [
        "producer.Producer[int, Order]",
        "producer.Producer[bytes, bytes]",
        "int | None",
        "Order | None",
        "aio.producer.producer.AsyncProducer[str, bytes]",
        "bytes | None",
    ]
    errors = [line for line in _check(tmp_path / "mistakes.py", MISTAKES) if " error: " in line]
    assert [line.split(":")[0] for line in errors] == ["3", "4", "5", "6", "7"]
