"""Clients that were never closed: forgotten, left to the end of the program, or taken through a fork."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.integration.client_support import make_topic, unique
from tidelog.client import Admin, Consumer, Producer
from tidelog.client.errors import ClientClosed
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def client_threads() -> set[threading.Thread]:
    names = ("tidelog-producer", "tidelog-consumer", "tidelog-admin")
    return {thread for thread in threading.enumerate() if thread.name in names}


def produce(servers: str) -> Producer:
    producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
    producer.send("forgotten", b"value")
    return producer


def consume(servers: str) -> Consumer:
    consumer = Consumer(bootstrap_servers=servers, group_id=unique("forgotten"))
    consumer.subscribe(["forgotten"])
    consumer.poll(0.1)
    return consumer


def administer(servers: str) -> Admin:
    admin = Admin(bootstrap_servers=servers)
    admin.list_topics()
    return admin


@pytest.mark.parametrize("use", [produce, consume, administer])
def test_a_client_that_is_forgotten_leaves_no_thread_behind(servers: str, use: Callable[[str], object]) -> None:
    before = client_threads()
    use(servers)
    gc.collect()
    deadline = time.monotonic() + 20
    while client_threads() - before:
        assert time.monotonic() < deadline, "the thread of a forgotten client is still there"
        time.sleep(0.01)


def test_a_program_that_closes_nothing_ends_without_complaint(servers: str) -> None:
    program = f"""
from tidelog.client import Admin, Consumer, Producer
kept = [Producer(bootstrap_servers={servers!r}), Admin(bootstrap_servers={servers!r})]
kept.append(Consumer(bootstrap_servers={servers!r}, group_id={unique("ending")!r}))
kept[0].send("forgotten", b"value").result(20)
kept[2].subscribe(["forgotten"])
kept[2].poll(0.1)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_must_make_clients_of_its_own(servers: str) -> None:
    topic = make_topic(servers)
    with Producer(bootstrap_servers=servers) as producer, Consumer(bootstrap_servers=servers) as consumer:
        producer.send(topic, b"before").result(20)
        child = os.fork()
        if not child:
            refused = 0
            for use in (lambda: producer.send(topic, b"child"), producer.flush, lambda: consumer.list_topics()):
                try:
                    use()
                except ClientClosed as error:
                    refused += "before a fork" in str(error)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert producer.send(topic, b"after").result(20).offset == 1


def test_a_close_that_is_interrupted_leaves_nothing_running(
    servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consume(servers)
    engine = consumer._engine

    def interrupted(work: Coroutine[Any, Any, Any]) -> None:
        monkeypatch.undo()
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer._caller, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert engine.client.is_closed
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    del consumer, engine
    gc.collect()
    complaints = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    assert not complaints, "tasks were left running"
