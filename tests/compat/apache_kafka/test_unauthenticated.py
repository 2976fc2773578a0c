"""What a client that has not authenticated itself gets from a SASL listener: the same fate as with Apache Kafka, for
every API in every version, well-formed and not, before the handshake and after it.

One thing differs. After the handshake Kafka reads a request of another API whole and answers ILLEGAL_SASL_STATE before
it closes; we close without reading what a stranger sent.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.security.secured import jaas
from tests.integration.raw_client import RawClient
from tidelog.wire import messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_request

pytestmark = pytest.mark.long

REQUESTS: Final[Mapping[int, Any]] = {
    each.api_key: each
    for module in iter_modules(messages.__path__)
    for each in vars(import_module(f"{messages.__name__}.{module.name}")).values()
    if isinstance(each, type) and each.__name__.endswith("Request") and hasattr(each, "api_key")
}
UNKNOWN_KEYS: Final = (-1, 95, 999, 32767)
NEWER: Final = {"API_VERSIONS v5"}
"""Versions that Kafka 3.9 does not have."""
BEYOND: Final = 2
"""So many versions after the newest are tried too."""
GRACE_S: Final = 0.3
"""A connection that is to be closed after its answer is closed by then."""
HANDSHAKE: Final = messages.SaslHandshakeRequest(mechanism="PLAIN")


def settings(port: int, sasl_port: int) -> dict[str, str]:
    return {
        "broker.id": "0",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas("PLAIN", "admin", "x", user_alice="secret"),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": jaas("SCRAM-SHA-256", "admin", "x"),
    }


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The SASL listeners of both."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    home: Path = tmp_path_factory.mktemp("brokers")
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(home / "zookeeper"))
        kinds: dict[str, Callable[[dict[str, str]], BrokerProcess]] = {
            "kafka": lambda given: KafkaBroker(home / "kafka", zookeeper, given),
            "ours": lambda given: TidelogBroker(home / "ours", given),
        }
        found = {}
        for name, make in kinds.items():
            port, found[name] = free_port(), free_port()
            broker = make(settings(port, found[name]))
            broker.port = port
            stack.enter_context(broker)
        yield found


def cases() -> Iterator[tuple[str, bytes]]:
    """A frame's content by its name: each API and version with fields that have their defaults, and with none."""
    for key, request in sorted(REQUESTS.items()):
        first, last = request.versions
        for version in range(first, last + 1):
            frame = encode_request(key, version, 7, "stranger", request().encode(version))
            yield f"{ApiKey(key).name} v{version}", frame[4:]
        for version in (*range(last + 1, last + 1 + BEYOND), -1):
            # Headers of the versions to come have a list of tags, an empty one here.
            yield f"{ApiKey(key).name} v{version}", struct.pack(">hhihb", key, version, 7, -1, 0)
        yield f"{ApiKey(key).name} v{last} cut", struct.pack(">hhih", key, last, 7, -1)
    for key in UNKNOWN_KEYS:
        yield f"key {key}", struct.pack(">hhih", key, 0, 7, -1) + bytes(20)
    yield "no header", b"\x00"
    yield "an empty frame", b""


class Fate(NamedTuple):
    answer: str
    """The first bytes of the answer, which hold its error; empty without one."""
    is_closed: bool


def fates(port: int, *, with_handshake: bool) -> dict[str, Fate]:
    """What becomes of each request and its connection."""
    found = {}
    for name, content in cases():
        with RawClient(port, timeout_s=20) as client:
            if with_handshake:
                assert client.call(HANDSHAKE, 1).error_code == 0
            client.socket.sendall(struct.pack(">i", len(content)) + content)
            try:
                answer = client.frame()[4:7].hex()
            except ConnectionError:
                found[name] = Fate("", True)
            else:
                found[name] = Fate(answer, client.is_closed_by_peer(GRACE_S))
    return found


def test_before_the_handshake_every_api_has_the_fate_it_has_with_kafka(ports: dict[str, int]) -> None:
    theirs, ours = (fates(ports[name], with_handshake=False) for name in ("kafka", "ours"))
    assert len(theirs) > 400
    assert {name: (ours[name], theirs[name]) for name in theirs.keys() - NEWER if ours[name] != theirs[name]} == {}
    answered = {name.split()[0] for name, fate in ours.items() if fate.answer}
    assert answered == {"API_VERSIONS", "SASL_HANDSHAKE"}


def test_after_the_handshake_every_api_ends_the_connection_as_with_kafka(ports: dict[str, int]) -> None:
    theirs, ours = (fates(ports[name], with_handshake=True) for name in ("kafka", "ours"))
    assert {name for name, fate in ours.items() if not fate.is_closed} == set()
    assert {name for name, fate in theirs.items() if not fate.is_closed} == set()
    assert {name.split()[0] for name, fate in ours.items() if fate.answer} == {"SASL_AUTHENTICATE"}
    tried = [name for name in theirs if name.startswith("SASL_AUTHENTICATE")]
    assert [ours[name] for name in tried] == [theirs[name] for name in tried]
