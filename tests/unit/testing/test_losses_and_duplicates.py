"""Every loss and every duplicate that the second and fourth seeds tell of, beside the settings that prevent it.

Three brokers in virtual time. Each scenario is played twice: where Kafka loses or repeats a record, so do we; with the
settings that prevent it there, neither happens here.

    scenario                                            with                            prevented by
    a leader dies with records that only it has         acks=1                          acks=all
    a record never reaches the leader                   acks=0                          acks=all, retries
    a replica that lags becomes leader                  unclean election                no unclean election
    the only in-sync replica is lost                    min.insync.replicas=1           min.insync.replicas=2
    the acknowledgement is lost, the producer retries   no idempotence                  idempotence

What one broker suffices for, the order of requests in flight and consumers that die before or after they commit, is in
`tests/integration/test_transactions_duplicates_and_loss.py`; the tables of high watermarks and log ends, and the two
failures of truncation by high watermark, are in `tests/unit/replication/test_watermark_tables.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tidelog.client import (
    AlterOperation,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ConfigChange,
    ConfigResource,
    ElectionType,
    NewTopic,
    ResourceType,
    TopicPartition,
)
from tidelog.client.aio.admin.types import LATEST
from tidelog.testing.simulation import Simulation
from tidelog.testing.simulation.processes import BrokerProcess, Process

T = TypeVar("T")

WHERE = TopicPartition("events", 0)
QUICK = {
    "request.timeout.ms": 2_000,
    "delivery.timeout.ms": 20_000,
    "max.block.ms": 20_000,
    "metadata.max.age.ms": 1_000,
    "retry.backoff.ms": 50,
    "linger.ms": 0,
}
UNCLEAN = "unclean.leader.election.enable"


class Cluster:
    """Three brokers with one partition, and a host for clients."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.client: Process = simulation.client()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.simulation.run(self.client.run(work))

    def create(self, replicas: tuple[int, ...] = (0, 1, 2), **configs: str) -> None:
        topic = NewTopic("events", configs={name.replace("_", "."): text for name, text in configs.items()})

        async def create() -> None:
            async with AsyncAdmin(bootstrap_servers=self.simulation.bootstrap_servers) as admin:
                await admin.create_topics([topic._replace(assignment=[replicas])])

        self.run(create())
        self.wait_until(lambda: self.simulation.is_healthy(), "all replicas are in sync")

    def broker(self, broker_id: int) -> BrokerProcess:
        return self.simulation.brokers[broker_id]

    def wait_until(self, holds: Any, what: str) -> None:
        self.simulation.wait_until(holds, what, 120)

    def leader(self, seen_by: int) -> int:
        """The leader of the partition, as a broker sees it; -1 if there is none."""
        shown = self.broker(seen_by).image.partition(*WHERE)
        return -1 if shown is None else shown.leader_id

    def isolate(self, broker_id: int) -> None:
        """Let no other broker hear from this one, nor this one from them; clients do."""
        for other in self.simulation.brokers:
            if other.broker_id != broker_id:
                self.simulation.network.cut(self.broker(broker_id).name, other.name)
                self.simulation.network.cut(other.name, self.broker(broker_id).name)

    def recover(self) -> None:
        """End every fault and wait until all replicas are in sync."""
        self.simulation.make_peace()
        self.wait_until(lambda: self.simulation.is_healthy(), "all is well again")

    def producer(self, **settings: Any) -> AsyncProducer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return AsyncProducer({**QUICK, "bootstrap.servers": self.simulation.bootstrap_servers, **named})

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(bootstrap_servers=self.simulation.bootstrap_servers)

    def send(self, *values: bytes, **settings: Any) -> None:
        """Send records and wait until they are acknowledged."""

        async def send() -> None:
            async with self.producer(**settings) as producer:
                for value in values:
                    await producer.send_and_wait("events", value, partition=0)

        self.run(send())

    def values(self) -> list[bytes]:
        """All records of the partition, by a consumer that reads it from start to end."""

        async def read() -> list[bytes]:
            settings = {"bootstrap.servers": self.simulation.bootstrap_servers, "isolation.level": "read_committed"}
            async with self.admin() as admin, AsyncConsumer(settings) as consumer:
                end = (await admin.list_offsets({WHERE: LATEST}))[WHERE].offset
                await consumer.assign([WHERE])
                consumer.seek(WHERE, 0)
                found: list[bytes] = []
                while await consumer.position(WHERE) < end:
                    found += [record.value or b"" for record in await consumer.poll(timeout_s=1)]
                return found

        return self.run(read())


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Simulation(11, brokers=3) as simulation:
        yield Cluster(simulation)


# --- losses ---


def lose_the_leader_before_its_followers_have_fetched(cluster: Cluster, acks: str) -> None:
    cluster.create()
    cluster.send(b"before", acks="all")
    cluster.isolate(0)

    async def send_and_kill() -> None:
        async with cluster.producer(acks=acks, enable_idempotence=acks == "all") as producer:
            sending = asyncio.ensure_future(producer.send_and_wait("events", b"after", partition=0))
            await asyncio.sleep(0.5)
            assert sending.done() == (acks == "1"), "the leader alone acknowledges with acks=1 and with no other"
            cluster.broker(0).kill()
            await sending

    cluster.run(send_and_kill())
    cluster.wait_until(lambda: cluster.leader(seen_by=1) in (1, 2), "another broker leads")
    cluster.recover()


def test_acks_1_and_a_lost_leader_lose_an_acknowledged_record(cluster: Cluster) -> None:
    lose_the_leader_before_its_followers_have_fetched(cluster, "1")
    assert cluster.values() == [b"before"], "it is gone although the leader is back: its log was truncated"


def test_acks_all_and_a_lost_leader_lose_nothing(cluster: Cluster) -> None:
    lose_the_leader_before_its_followers_have_fetched(cluster, "all")
    assert cluster.values() == [b"before", b"after"]


def send_to_a_leader_that_is_dying(cluster: Cluster, acks: str) -> None:
    """What is sent arrives nowhere: the network swallows it, and then the leader is gone."""
    cluster.create()
    leader, client = cluster.broker(0), cluster.client.name

    async def send() -> None:
        async with cluster.producer(acks=acks, enable_idempotence=acks == "all") as producer:
            await producer.send_and_wait("events", b"before", partition=0)
            await asyncio.sleep(1)  # with acks=0 it may still be on its way
            cluster.simulation.network.cut(client, leader.name)
            sending = asyncio.ensure_future(producer.send_and_wait("events", b"swallowed", partition=0))
            await asyncio.sleep(0.5)
            assert sending.done() == (acks == "0"), "with acks=0 nothing is waited for"
            leader.kill()
            cluster.simulation.network.heal(client, leader.name)
            await sending

    cluster.run(send())
    cluster.recover()


def test_acks_0_loses_what_does_not_arrive(cluster: Cluster) -> None:
    send_to_a_leader_that_is_dying(cluster, "0")
    assert cluster.values() == [b"before"], "and the producer does not know"


def test_acks_all_sends_again_what_did_not_arrive(cluster: Cluster) -> None:
    send_to_a_leader_that_is_dying(cluster, "all")
    assert cluster.values() == [b"before", b"swallowed"]


def leave_only_a_replica_that_lags(cluster: Cluster, **configs: str) -> None:
    """Broker 1 misses a record, broker 0 has it and dies, broker 1 comes back."""
    cluster.create((0, 1), **configs)
    cluster.send(b"both")
    cluster.broker(1).kill()
    cluster.wait_until(lambda: cluster.broker(2).image.partition(*WHERE).isr == (0,), "broker 1 leaves the ISR")  # type: ignore[union-attr]
    cluster.send(b"one", acks="all")
    cluster.broker(0).kill()
    cluster.wait_until(lambda: cluster.leader(seen_by=2) == -1, "the partition has no leader")
    cluster.broker(1).start()
    cluster.wait_until(
        lambda: cluster.broker(1).is_serving and cluster.broker(1).image.topic("events"), "broker 1 is back"
    )


def test_an_unclean_election_loses_what_the_new_leader_did_not_have(cluster: Cluster) -> None:
    leave_only_a_replica_that_lags(cluster, **{UNCLEAN.replace(".", "_"): "true"})
    cluster.wait_until(lambda: cluster.leader(seen_by=2) == 1, "the replica that lags leads")
    cluster.recover()
    assert cluster.values() == [b"both"], "acknowledged with acks=all, and lost"


def test_without_unclean_elections_the_partition_waits_for_a_replica_that_has_everything(cluster: Cluster) -> None:
    leave_only_a_replica_that_lags(cluster)
    cluster.simulation.world.run_for(10)
    assert cluster.leader(seen_by=2) == -1
    cluster.recover()
    assert cluster.values() == [b"both", b"one"]


@pytest.mark.parametrize(
    "resource",
    [ConfigResource(ResourceType.TOPIC, "events"), ConfigResource(ResourceType.BROKER, "")],
    ids=["topic", "cluster"],
)
def test_unclean_elections_that_are_allowed_later_take_place_at_once(
    cluster: Cluster, resource: ConfigResource
) -> None:
    leave_only_a_replica_that_lags(cluster)

    async def allow() -> None:
        async with cluster.admin() as admin:
            await admin.incremental_alter_configs({resource: [ConfigChange(UNCLEAN, "true", AlterOperation.SET)]})

    cluster.run(allow())
    cluster.wait_until(lambda: cluster.leader(seen_by=2) == 1, "the replica that lags leads")


def test_an_unclean_election_that_an_operator_asks_for_is_answered_when_the_leader_is_known(cluster: Cluster) -> None:
    leave_only_a_replica_that_lags(cluster)

    async def elect() -> tuple[object, int]:
        async with cluster.admin() as admin:
            outcomes = await admin.elect_leaders([WHERE], ElectionType.UNCLEAN)
            described = await admin.describe_topics(["events"])
            return outcomes[WHERE], described["events"].partitions[0].leader_id

    assert cluster.run(elect()) == (None, 1)


def lose_the_only_replica_in_sync(cluster: Cluster, min_insync_replicas: str) -> bool:
    """Broker 1 dies, then a record is sent with acks=all, then broker 0 is lost; whether it was acknowledged."""
    cluster.create((0, 1), min_insync_replicas=min_insync_replicas, **{UNCLEAN.replace(".", "_"): "true"})
    cluster.send(b"before")
    cluster.broker(1).kill()
    cluster.wait_until(lambda: cluster.broker(2).image.partition(*WHERE).isr == (0,), "broker 1 leaves the ISR")  # type: ignore[union-attr]
    is_acknowledged = True
    try:
        cluster.send(b"after", acks="all", delivery_timeout_ms=3_000)
    except ClientError:
        is_acknowledged = False
    cluster.broker(0).kill()
    cluster.broker(1).start()
    cluster.wait_until(lambda: cluster.leader(seen_by=2) == 1, "broker 1 leads")
    cluster.recover()
    return is_acknowledged


def test_one_replica_in_sync_is_not_enough_to_keep_what_it_acknowledges(cluster: Cluster) -> None:
    assert lose_the_only_replica_in_sync(cluster, "1")
    assert cluster.values() == [b"before"], "acknowledged by one replica, which was lost"


def test_min_insync_replicas_refuses_what_one_replica_alone_could_lose(cluster: Cluster) -> None:
    assert not lose_the_only_replica_in_sync(cluster, "2"), "NOT_ENOUGH_REPLICAS: the producer knows"
    assert cluster.values() == [b"before"]


# --- duplicates ---


def lose_an_acknowledgement(cluster: Cluster, *, idempotence: bool) -> None:
    cluster.create()
    leader, client = cluster.broker(0), cluster.client.name

    async def send() -> None:
        async with cluster.producer(acks="all", enable_idempotence=idempotence) as producer:
            await producer.send_and_wait("events", b"first", partition=0)
            cluster.simulation.network.cut(leader.name, client)
            sending = asyncio.ensure_future(producer.send_and_wait("events", b"again", partition=0))
            await asyncio.sleep(3)  # longer than request.timeout.ms
            cluster.simulation.network.heal(leader.name, client)
            await sending

    cluster.run(send())


def test_retries_without_idempotence_repeat_a_record_whose_acknowledgement_was_lost(cluster: Cluster) -> None:
    lose_an_acknowledgement(cluster, idempotence=False)
    assert cluster.values() == [b"first", b"again", b"again"]


def test_retries_with_idempotence_repeat_nothing(cluster: Cluster) -> None:
    lose_an_acknowledgement(cluster, idempotence=True)
    assert cluster.values() == [b"first", b"again"]
