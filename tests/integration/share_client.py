"""A member of a share group whose every request is the test's own: it heartbeats, fetches and acknowledges by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

from tests.integration.raw_client import RawClient
from tidelog.client import Admin, ConfigChange, ConfigResource, Producer, ResourceType
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.testing import Broker, Cluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import share_acknowledge as acknowledging
from tidelog.wire.messages import share_fetch as fetching
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
Delivered = list[tuple[int, bytes, int]]
"""Offset, value and delivery count of records."""


class ShareMember:
    """One member on one broker, reading one partition."""

    def __init__(self, port: int, topic: str, group: str, member_id: str, partition: int = 0) -> None:
        self.client = RawClient(port)
        self.topic, self.group, self.member_id, self.partition = topic, group, member_id, partition
        self.epoch = 0
        self.member_epoch = 0
        self.topic_id = b""
        self.codes: list[ErrorCode] = []
        """Of the last request: its own error, that of the fetch, that of the acknowledgement."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def join(self, *, has_coordinator: bool = True) -> Self:
        """Learn the topic's id and join; waits until the group's state is there."""
        deadline = time.monotonic() + 30
        while True:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)])
            (found,) = self.client.call(request).topics
            if not found.error_code:
                self.topic_id = found.topic_id
                if not has_coordinator or not self.heartbeat():
                    return self
            assert time.monotonic() < deadline, "the member cannot join"
            time.sleep(0.1)

    def heartbeat(self, epoch: int | None = None) -> ErrorCode:
        from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

        self.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]))
        response = self.client.call(
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.member_epoch if epoch is None else epoch,
                subscribed_topic_names=[self.topic],
            )
        )
        if not response.error_code:
            self.member_epoch = response.member_epoch
        return ErrorCode(response.error_code)

    def fetch(
        self,
        *acks: tuple[int, int, Sequence[int]],
        wait_ms: int = 0,
        records_max: int = 500,
        is_strict: bool = False,
        epoch: int | None = None,
        delay_ms: int = -1,
    ) -> Delivered:
        """Acknowledge, then lock records; an epoch of 0 begins a session again."""
        sent = self.epoch if epoch is None else epoch
        batches = [
            fetching.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types), delay_ms=delay_ms
            )
            for first, last, types in acks
        ]
        entry = fetching.FetchPartition(partition_index=self.partition, acknowledgement_batches=batches)
        request = fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=sent,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=records_max,
            batch_size=records_max,
            share_acquire_mode=int(is_strict),
            topics=[fetching.FetchTopic(topic_id=self.topic_id, partitions=[entry])],
        )
        response = self.client.call(request)
        self.codes = [ErrorCode(response.error_code)]
        self.epoch = sent + 1
        found: Delivered = []
        for topic in response.responses:
            for data in topic.partitions:
                self.codes += [ErrorCode(data.error_code), ErrorCode(data.acknowledge_error_code)]
                found += _delivered(data)
        return found

    def fetch_some(self, **more: Any) -> Delivered:
        """Fetch until there are records; a broker that is becoming the leader is asked again."""
        deadline = time.monotonic() + 30
        while True:
            found = self.fetch(wait_ms=300, **more)
            if found:
                return found
            assert time.monotonic() < deadline, f"no records came: {self.codes}"
            if any(code in _RETRIED for code in self.codes):
                time.sleep(0.1)

    def acknowledge(
        self, *acks: tuple[int, int, Sequence[int]], epoch: int | None = None, delay_ms: int = -1
    ) -> ErrorCode:
        """Acknowledge without fetching; the error of the request or of the partition."""
        sent = self.epoch if epoch is None else epoch
        batches = [
            acknowledging.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types), delay_ms=delay_ms
            )
            for first, last, types in acks
        ]
        entry = acknowledging.AcknowledgePartition(partition_index=self.partition, acknowledgement_batches=batches)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=sent,
            is_renew_ack=any(RENEW in types for _, _, types in acks),
            topics=[acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[entry])],
        )
        response = self.client.call(request)
        self.epoch = sent + 1
        if response.error_code or not response.responses:
            return ErrorCode(response.error_code)
        return ErrorCode(response.responses[0].partitions[0].error_code)

    def close_session(self) -> None:
        self.acknowledge(epoch=-1)


def _delivered(data: fetching.PartitionData) -> Delivered:
    """The records that were locked, as a consumer shows them: those in the batches and in the locked ranges."""
    counts = {
        offset: entry.delivery_count
        for entry in data.acquired_records
        for offset in range(entry.first_offset, entry.last_offset + 1)
    }
    records = bytes(data.records)
    return [
        (record.offset, record.value or b"", counts[record.offset])
        for position, header in iterate_batches(records)
        if not header.is_control
        for record in iterate_records(records, position)
        if record.offset in counts
    ]


# --- around members ---


def write(servers: str, topic: str, *values: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value.encode(), partition=0)


def set_up(broker: Broker | Cluster, group: str, **settings: str) -> None:
    """Give a group settings of its own, which the broker follows by the time of the next request."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        changes = [ConfigChange(name, value) for name, value in settings.items()]
        admin.incremental_alter_configs({ConfigResource(ResourceType.GROUP, group): changes})


def leader_of(cluster: Cluster) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        leader = cluster.leader_of("work", 0)
        if leader >= 0 and cluster.is_running(leader):
            return leader
        time.sleep(0.1)
    raise AssertionError("the partition has no leader")


def join_anywhere(cluster: Cluster, name: str) -> None:
    """Send the first heartbeat to each broker until its coordinator takes it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for broker_id in cluster.broker_ids:
            port = int(cluster.address_of(broker_id).rpartition(":")[2])
            with ShareMember(port, "work", "group", name) as member:
                if member.heartbeat() is ErrorCode.NONE:
                    return
        time.sleep(0.2)
    raise AssertionError("no broker coordinates the group")


def until_ready(member: ShareMember) -> None:
    deadline = time.monotonic() + 30
    while any(member.codes):
        assert time.monotonic() < deadline, member.codes
        time.sleep(0.1)
        member.fetch(epoch=0)
