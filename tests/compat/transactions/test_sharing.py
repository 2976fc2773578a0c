"""One transaction, filled by four processes that know its producer id and epoch, one of which is killed.

What an exactly-once sink leans on: the one who opened the transaction hands out the producer, every writer has
partitions of its own and starts their sequences at 0, and the opener alone ends it, with a record of what is in it.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final

import pytest

from tests.compat.transactions.conftest import MakeTopic
from tests.compat.transactions.protocol import Producer, Rpc, until
from tidelog.wire.errors import ErrorCode

WRITERS: Final = 4
BATCHES: Final = 5
_spawn: Final = multiprocessing.get_context("spawn")


def write_share(port: int, producer: Producer, topic: str, partition: int, control: Connection) -> None:
    """One process: batches with sequences of its own into a partition of its own, stopping half-way for a word."""
    with Rpc(port) as rpc:
        for number in range(BATCHES):
            if number == BATCHES // 2:
                control.send("half")
                control.recv()
            rpc.write(topic, partition, [b"%d-%d" % (partition, number)], producer, sequence=number)
    control.send("done")


class Writer:
    """A process and the line to it."""

    def __init__(self, port: int, producer: Producer, topic: str, partition: int) -> None:
        self.line, theirs = _spawn.Pipe()
        self.process: SpawnProcess = _spawn.Process(
            target=write_share, args=(port, producer, topic, partition, theirs), daemon=True
        )
        self.process.start()
        theirs.close()

    def expect(self, word: str) -> None:
        assert self.line.poll(30), "the writer says nothing"
        assert self.line.recv() == word

    def end(self) -> None:
        self.process.join(30)
        self.line.close()


def open_transaction(rpc: Rpc, name: str, topic: str) -> Producer:
    """What the opener does: it takes the id, which fences its earlier producer, and adds every partition itself."""
    producer = rpc.start(name)
    rpc.begin(producer, *((topic, partition) for partition in range(WRITERS)), (f"{topic}-state", 0))
    return producer


def end_with_record(rpc: Rpc, producer: Producer, topic: str, batch: bytes, is_commit: bool) -> None:
    """The number of what was written goes into the same transaction: a repetition can be recognised."""
    rpc.write(f"{topic}-state", 0, [batch], producer)
    rpc.finish(producer, is_commit)


@pytest.fixture
def shared_topic(make_topic: MakeTopic, servers: str) -> str:
    from tidelog.client import Admin, NewTopic

    topic = make_topic(WRITERS)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"{topic}-state", 1)])
    return topic


def test_four_processes_fill_one_transaction_and_one_of_them_is_killed(
    rpc: Rpc, port: int, name: str, shared_topic: str
) -> None:
    """The batch is written again as a whole, and is there once."""
    topic = shared_topic
    producer = open_transaction(rpc, name, topic)
    writers = [Writer(port, producer, topic, partition) for partition in range(WRITERS)]
    for writer in writers:
        writer.expect("half")
    victim, *survivors = writers
    victim.process.kill()
    victim.end()
    for writer in survivors:
        writer.line.send("go on")
        writer.expect("done")
        writer.end()
    assert [rpc.read(topic, partition) for partition in range(WRITERS)] == [[]] * WRITERS
    end_with_record(rpc, producer, topic, b"batch 0", False)

    producer = open_transaction(rpc, name, topic)
    writers = [Writer(port, producer, topic, partition) for partition in range(WRITERS)]
    for writer in writers:
        writer.expect("half")
        writer.line.send("go on")
        writer.expect("done")
        writer.end()
    end_with_record(rpc, producer, topic, b"batch 0", True)
    for partition in range(WRITERS):
        assert rpc.read(topic, partition) == [b"%d-%d" % (partition, number) for number in range(BATCHES)]
    assert rpc.read(f"{topic}-state") == [b"batch 0"]


def test_writers_of_an_opener_that_was_replaced_are_fenced(rpc: Rpc, port: int, name: str, shared_topic: str) -> None:
    """The opener died; its writers live on and know nothing of the next one."""
    topic = shared_topic
    old = open_transaction(rpc, name, topic)
    rpc.write(topic, 0, [b"old"], old)
    new = open_transaction(rpc, name, topic)
    with Rpc(port) as zombie:
        assert zombie.produce(topic, 0, [b"zombie"], old, sequence=1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
        assert zombie.produce(topic, 1, [b"zombie"], old)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
        assert zombie.end(old, True) is ErrorCode.PRODUCER_FENCED
    rpc.write(topic, 0, [b"new"], new)
    end_with_record(rpc, new, topic, b"batch 0", True)
    assert rpc.read(topic, 0) == [b"new"]


def test_an_offset_of_a_group_may_be_the_record(rpc: Rpc, name: str, group: str, shared_topic: str) -> None:
    producer = open_transaction(rpc, name, shared_topic)
    rpc.write(shared_topic, 0, [b"x"], producer)
    until(lambda: rpc.add_offsets(producer, group) is ErrorCode.NONE)
    until(lambda: rpc.commit_offset(producer, group, (shared_topic, 0), 17) is ErrorCode.NONE)
    rpc.finish(producer, True)
    until(lambda: rpc.offset_of(group, (shared_topic, 0), require_stable=True) == (ErrorCode.NONE, 17))
