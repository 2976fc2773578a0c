"""What the simulator looks at inside brokers and clients must be able to fail: each rule is broken here once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tidelog.client import AsyncAdmin, AsyncConsumer, AsyncProducer, NewTopic, TopicPartition
from tidelog.metadata import paths
from tidelog.metadata.store import Set
from tidelog.metadata.tree import ProducerIdBlock, encode_producer_id_block
from tidelog.records.bulk import assemble_batch
from tidelog.replication.partition import Partition
from tidelog.testing.simulation import Simulation
from tidelog.testing.simulation.coverage import EXPECTED_STATES
from tidelog.testing.simulation.history import History
from tidelog.testing.simulation.machine import Disk
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.swarm import draw_swarm
from tidelog.testing.simulation.workload import PARTITIONS, TOPIC, Workload
from tidelog.testing.simulation.world import World


async def create(servers: str, replicas: int = 3) -> None:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas, configs={"min.insync.replicas": "2"})])


async def produce(servers: str, count: int = 5) -> None:
    async with AsyncProducer(bootstrap_servers=servers, acks="all") as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, b"value %d" % number, partition=0)


def leader_of(cluster: Simulation) -> tuple[BrokerProcess, Partition]:
    for broker in cluster.brokers:
        partition = broker.find_partition(TOPIC, 0)
        if partition is not None and partition.is_leader:
            return broker, partition
    raise AssertionError(f"{TOPIC}-0 has no leader")


def violations_after(change: str) -> list[str]:
    """What is found when a healthy cluster goes on after one of its replicas was given a wrong state."""
    with Simulation(21, brokers=3) as cluster:
        client, servers = cluster.client(), cluster.bootstrap_servers
        cluster.run(client.run(create(servers)))
        cluster.wait_until(cluster.is_healthy, "every replica is in sync")
        cluster.run(client.run(produce(servers)))
        broker, partition = leader_of(cluster)
        replica_set = partition.replica_set
        follower = next(iter(replica_set.followers.values()))
        match change:
            case "progress":
                follower.log_end_offset += 100
            case "known ISR":
                replica_set.isr = replica_set.isr[:2]
            case "maximal ISR":
                for each in replica_set.followers.values():
                    each.log_end_offset = 1 << 40
            case "epochs go back":
                replica_set.partition_epoch += 5
                cluster.invariants._replicas.check(broker, partition, has_fetched=False)
                replica_set.partition_epoch -= 5
            case "epochs of the log":
                partition.log.leader_epochs.assign(7, 1 << 30)
                cluster.invariants._replicas.check(broker, partition, has_fetched=False)
        partition.log.append_own(bytearray(a_batch()), partition.leader_epoch, broker.clock.wall_ms())
        broker.node.replica_manager.staged(partition)
        broker.node.replica_manager.end_turn()
        cluster.invariants.check(broker.name)
        return cluster.invariants.violations


def a_batch() -> bytes:
    return bytes(assemble_batch([(0, b"key", b"value", ())]).buffer)


@pytest.mark.parametrize("rule", ["progress", "known ISR", "maximal ISR", "epochs go back", "epochs of the log"])
def test_a_replica_with_a_wrong_state_is_found(rule: str) -> None:
    found = violations_after(rule)
    assert any(each.startswith(f"{rule}:") for each in found), found


def test_a_replica_as_it_should_be_is_not() -> None:
    assert violations_after("nothing") == []


def test_a_block_of_producer_ids_that_is_taken_twice_is_found() -> None:
    with Simulation(22, brokers=2) as cluster:
        block = encode_producer_id_block(ProducerIdBlock(1, 0, 999))
        cluster.tree.transact([Set(paths.PRODUCER_ID_BLOCK, block)], 1)
        cluster.tree.transact([Set(paths.PRODUCER_ID_BLOCK, block)], 1)
        assert any(
            each.startswith("blocks once: broker-1 takes the producer ids from 0")
            for each in (cluster.invariants.violations)
        )


async def read_and_commit(servers: str, group: str, offset: int) -> None:
    async with AsyncConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        await consumer.subscribe([TOPIC])
        while not consumer.assignment:
            await consumer.poll(timeout_s=1)
        await consumer.commit({TopicPartition(TOPIC, 0): offset})


def test_offsets_that_go_back_with_another_member_are_found() -> None:
    with Simulation(23) as cluster:
        client, servers = cluster.client(), cluster.bootstrap_servers
        cluster.run(client.run(produce(servers)))
        for offset in (3, 5):
            cluster.run(client.run(read_and_commit(servers, "readers", offset)))
        assert cluster.invariants.violations == []
        cluster.run(client.run(read_and_commit(servers, "readers", 2)))
        assert any(each.startswith("offsets go on:") for each in cluster.invariants.violations)


def test_states_of_the_protocol_are_counted_under_names_that_are_expected() -> None:
    with Simulation(24, brokers=3) as cluster:
        client, servers = cluster.client(), cluster.bootstrap_servers
        cluster.run(client.run(create(servers)))
        cluster.run(client.run(produce(servers)))
        cluster.run(client.run(read_and_commit(servers, "readers", 1)))
        states = cluster.invariants.states
        assert states["group: PreparingRebalance when members joined"]
        assert states["a coordinator loads a partition"]
        assert states["follower: fetching"]
        assert set(states) <= set(EXPECTED_STATES)


def test_a_client_that_is_killed_lives_again_on_its_host() -> None:
    history = History()
    with Simulation(25) as cluster:
        workload = Workload(history, cluster.bootstrap_servers, random.Random(1), draw_swarm(1, 1))
        client = cluster.client()
        workload.add(lambda: workload._produce("idempotent", acks="all", idempotent=True), client)
        cluster.world.run_for(3.0)
        before = workload.counts["acknowledged sends"]
        workload.replace(client, 1.0)
        assert not client.is_alive
        cluster.wait_until(lambda: workload.counts["acknowledged sends"] > before, "another one goes on")
        assert client.is_alive
        workload.stop()
        cluster.wait_until(lambda: workload.is_done, "the clients come to their end")
        assert workload.errors() == []


def test_held_back_replies_are_overtaken_by_what_others_send() -> None:
    with Simulation(26) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.run(client.run(produce(cluster.bootstrap_servers, 1)))
        task = client.run(produce(cluster.bootstrap_servers, 1))
        cluster.wait_until(
            lambda: any(end.host == client.name for end in cluster.network.connections()), "a connection"
        )
        cluster.network.hold_replies(broker.name, client.name, 2.0)
        other = cluster.client()
        cluster.run(other.run(produce(cluster.bootstrap_servers, 1)), 1.0)
        assert not task.done()
        cluster.run(task)


def test_an_index_is_damaged_in_every_way_that_a_broker_has_to_notice(tmp_path: Path) -> None:
    sizes = set()
    for seed in range(40):
        path = tmp_path / f"{seed:020}.index"
        path.write_bytes(bytes(range(1, 17)))
        Disk(World(seed), str(tmp_path)).damage_indexes(random.Random(seed))
        sizes.add(path.stat().st_size if path.exists() else None)
        if path.exists():
            path.unlink()
    assert None in sizes, "gone"
    assert 16 in sizes, "left as it was"
    assert 40 in sizes, "with more than there is"
    assert any(size % 2 for size in sizes if size is not None), "cut within an entry"
