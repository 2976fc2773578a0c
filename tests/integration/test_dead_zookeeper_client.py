"""A broker process whose ZooKeeper client dies: it registers again, or ends with an exit code that restarts it.

The broker is a real process on a real ZooKeeper. SIGUSR1 ends the thread of its client as an error would that the
client does not expect; with SIGUSR2 every client that follows ends as well.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.processes import ProcessFailedError, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.chaos.cluster import wait_until
from tests.integration.raw_client import RawClient, batch_of, describe_topic, produce
from tests.integration.zookeeper_support import fresh_chroot, needs_zookeeper, shared_server
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = [needs_zookeeper, pytest.mark.long]

SECONDS = 60.0
SERVE = """
import ctypes, signal, sys, threading, time
from tidelog.cli.serve import main

def end(thread):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(ValueError))

def connecting():
    return [each for each in threading.enumerate() if "zk_loop" in each.name]

def end_all():
    while True:
        for each in connecting():
            end(each)
        time.sleep(0.01)

signal.signal(signal.SIGUSR1, lambda *_: [end(each) for each in connecting()])
signal.signal(signal.SIGUSR2, lambda *_: threading.Thread(target=end_all, daemon=True).start())
sys.exit(main(sys.argv[1:]))
"""


class FragileBroker(TidelogBroker):
    """A broker whose client can be ended."""

    def command(self) -> list[str]:
        words = super().command()
        return [sys.executable, "-c", SERVE, *words[words.index("serve") + 1 :]]


@pytest.fixture
def tree() -> Iterator[ZooKeeperStore]:
    store = ZooKeeperStore(fresh_chroot(shared_server()))
    yield store
    store.close()


@pytest.fixture
def broker(tmp_path: Path, tree: ZooKeeperStore) -> Iterator[FragileBroker]:
    settings = {
        "broker.id": "1",
        "zookeeper.connect": tree._connect_string,
        "zookeeper.session.timeout.ms": "2000",
        "offsets.topic.replication.factor": "1",
    }
    broker = FragileBroker(tmp_path / "broker", settings)
    broker.port = free_port()
    with broker:
        yield broker


def owner(tree: ZooKeeperStore) -> int:
    """The session that the broker is registered in."""
    stat = tree.exists("/brokers/ids/1")
    return 0 if stat is None else stat.ephemeral_owner


def has_ended(broker: FragileBroker) -> bool:
    try:
        broker.child.check_alive()
    except ProcessFailedError:
        return True
    return False


def write(broker: FragileBroker, topic: str) -> None:
    """Create a topic, which needs the tree, and write to it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    with RawClient(broker.port) as client:

        def is_led() -> bool:
            client.call(request, 12)
            shown = describe_topic(client, topic)
            return bool(shown.partitions) and shown.partitions[0].leader_id == 1

        assert wait_until(is_led, SECONDS)
        assert produce(client, topic, 0, batch_of([b"a record"])).error_code == ErrorCode.NONE


def test_a_broker_whose_client_dies_registers_again_and_goes_on(broker: FragileBroker, tree: ZooKeeperStore) -> None:
    write(broker, "before")
    first = owner(tree)
    assert first
    os.kill(broker.child.pid, signal.SIGUSR1)
    assert wait_until(lambda: owner(tree) not in (0, first), SECONDS)
    write(broker, "after")
    broker.child.check_alive()


def test_a_broker_whose_clients_all_die_ends_with_an_exit_code_for_its_supervisor(broker: FragileBroker) -> None:
    write(broker, "before")
    os.kill(broker.child.pid, signal.SIGUSR2)
    assert wait_until(lambda: has_ended(broker), SECONDS)
    assert broker.child.stop() == 1
    log = broker.child.output.read_text()
    assert "has ended: a new one takes its place, with a new session" in log
    assert "has ended, although it was renewed: the broker stops, so that it can be started again" in log
