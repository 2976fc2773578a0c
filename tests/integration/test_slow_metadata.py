"""A disk that takes its time to sync the metadata delays requests that change it, and no others."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, fetch_records, produce
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.store import Operation, Result
from tidelog.wire import messages
from tidelog.wire.messages.create_partitions import CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic
from tidelog.wire.messages.delete_topics import DeleteTopicState
from tidelog.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from tidelog.wire.messages.metadata import MetadataRequestTopic


class Disk:
    """Where the metadata is synced to. While it is held, no change of the metadata ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_free = threading.Event()
        self._is_free.set()
        self.commits = 0
        commit = EmbeddedStore.multi

        def slow_commit(store: EmbeddedStore, operations: Sequence[Operation]) -> list[Result]:
            self.commits += 1
            assert self._is_free.wait(60)
            return commit(store, operations)

        monkeypatch.setattr(EmbeddedStore, "multi", slow_commit)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._is_free.clear()
        try:
            yield
        finally:
            self._is_free.set()


def topic(name: str, partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


CHANGES: dict[str, Any] = {
    "create": messages.CreateTopicsRequest(topics=[topic("new")]),
    "delete": messages.DeleteTopicsRequest(topics=[DeleteTopicState(name="old")]),
    "grow": messages.CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]),
    "alter": messages.IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[AlterableConfig(name="segment.ms", value="900000")]
            )
        ]
    ),
    "make by the way": messages.MetadataRequest(topics=[MetadataRequestTopic(name="by-the-way")]),
    "first group": messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]),
    "first transaction": messages.FindCoordinatorRequest(key_type=1, coordinator_keys=["transactional-id"]),
    "first producer id": messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
}


def errors_in(response: Any) -> list[int]:
    """The error codes of a response and of what it lists."""
    found = [response.error_code] if hasattr(response, "error_code") else []
    for name in ("topics", "responses", "results", "coordinators"):
        found += [each.error_code for each in getattr(response, name, ())]
    return found


def test_producers_do_not_wait_for_a_change_of_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails on 4724f6e, where every change was synced on the event loop."""
    disk = Disk(monkeypatch)
    with Inside(tmp_path) as broker, RawClient(broker.port) as admin, RawClient(broker.port) as producer:
        admin.call(messages.CreateTopicsRequest(topics=[topic("t"), topic("old")]))
        for number, (what, change) in enumerate(CHANGES.items()):
            with disk.held():
                before = disk.commits
                version = admin.send(change)
                while disk.commits == before:  # until the change has reached the disk, others are served
                    produce(producer, "t", 0, batch_of([b"meanwhile"]))
                assert produce(producer, "t", 0, batch_of([b"%d" % number])).error_code == 0, what
                assert fetch_records(producer, "t", 0)[-1].value == b"%d" % number
            answer = admin.answer(type(change), version)
            assert set(errors_in(answer)) == {0}, what


def test_two_clients_that_need_the_same_topic_both_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    by_the_way = messages.MetadataRequest(topics=[MetadataRequestTopic(name="both")])
    group = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    with Inside(tmp_path) as broker, RawClient(broker.port) as one, RawClient(broker.port) as other:
        for request in (by_the_way, group):
            with disk.held():
                versions = [client.send(request) for client in (one, other)]
            answers = [
                client.answer(type(request), version) for client, version in zip((one, other), versions, strict=True)
            ]
            assert [set(errors_in(answer)) for answer in answers] == [{0}, {0}]
        assert answers[0] == answers[1]


def test_a_change_that_was_acknowledged_is_seen_by_the_next_request(tmp_path: Path) -> None:
    """Also where both are in one write, and from any client."""
    describe = messages.DescribeConfigsRequest(
        resources=[
            messages.describe_configs.DescribeConfigsResource(
                resource_type=2, resource_name="t", configuration_keys=["segment.ms"]
            )
        ]
    )
    with Inside(tmp_path) as broker, RawClient(broker.port) as client, RawClient(broker.port) as other:
        client.call(messages.CreateTopicsRequest(topics=[topic("t")]))
        assert set(errors_in(client.call(CHANGES["alter"]))) == {0}
        (entry,) = other.call(describe).results[0].configs
        assert entry.value == "900000"
        partition = broker.node.replica_manager.find("t", 0)
        assert partition is not None
        assert partition.log.config.segment_ms == 900_000


def test_no_change_is_synced_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the metadata nor in the checkpoints of log directories. Fails on 4724f6e."""
    with Inside(tmp_path) as broker, RawClient(broker.port) as admin:
        loop_thread = broker.on_loop(threading.current_thread)
        synced: list[str] = []
        label = ""

        def watched(sync: Callable[[int], None]) -> Callable[[int], None]:
            def call(descriptor: int) -> None:
                if threading.current_thread() is loop_thread:
                    synced.append(label)
                sync(descriptor)

            return call

        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, watched(getattr(os, name)))
        admin.call(messages.CreateTopicsRequest(topics=[topic("t"), topic("old", 3)]))
        for label, change in CHANGES.items():
            assert set(errors_in(admin.call(change))) == {0}, label
        monkeypatch.undo()
    assert synced == []
