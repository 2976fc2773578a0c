"""A simulated cluster runs real brokers and clients, and the same seed gives the same run again."""

from __future__ import annotations

import pytest

from tidelog.client import AsyncAdmin, AsyncConsumer, AsyncProducer, NewTopic
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.testing.simulation import Simulation, SimulationFailed, delayed_state
from tidelog.testing.simulation.coordinator_state import differences
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC, CommittedLog
from tidelog.testing.simulation.invariants import Step
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess


async def produce(servers: str, count: int) -> list[int]:
    async with AsyncProducer(bootstrap_servers=servers, acks="all") as producer:
        return [(await producer.send_and_wait("events", b"value %d" % number)).offset for number in range(count)]


async def consume(servers: str, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with AsyncConsumer(bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(["events"])
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout_s=1)]
    return values


def a_life_with_a_kill(seed: int) -> tuple[int, float, list[str]]:
    with Simulation(seed) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        assert cluster.run(client.run(produce(cluster.bootstrap_servers, 20))) == list(range(20))
        broker.kill()
        broker.start()
        cluster.wait_until(lambda: broker.is_serving, "the broker serves again")
        values = cluster.run(client.run(consume(cluster.bootstrap_servers, 20)))
        assert values == [b"value %d" % number for number in range(20)]
        assert not broker.failures()
        assert not client.failures()
        return cluster.world.events_run, cluster.world.now, cluster.world.story()


def test_a_seed_gives_the_same_run_again() -> None:
    assert a_life_with_a_kill(1) == a_life_with_a_kill(1)


def test_another_seed_gives_another_run() -> None:
    assert a_life_with_a_kill(1)[:2] != a_life_with_a_kill(2)[:2]


def test_what_was_not_synced_may_be_gone_after_a_power_failure_and_the_broker_starts_all_the_same() -> None:
    ends = []
    hosts_with_losses = 0
    for seed in range(16):
        with Simulation(seed) as cluster:
            client, broker = cluster.client(), cluster.brokers[0]
            cluster.run(client.run(produce(cluster.bootstrap_servers, 20)))
            broker.lose_power()
            broker.start()
            cluster.wait_until(lambda: broker.is_serving, "the broker serves again")  # noqa: B023 - called at once
            assert broker.disk is not None
            hosts_with_losses += broker.disk.lost_bytes > 0
            first, *_ = cluster.run(client.run(produce(cluster.bootstrap_servers, 1)))
            ends.append(first)
    assert hosts_with_losses > 8, "a failure may spare what was not synced, but seldom does"
    assert 0 <= min(ends) < max(ends) <= 20, "how much of it is gone differs from run to run"


def test_what_was_synced_survives_a_power_failure() -> None:
    with Simulation(3, settings={"log.flush.interval.messages": "1"}) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.run(client.run(produce(cluster.bootstrap_servers, 20)))
        broker.lose_power()
        broker.start()
        cluster.wait_until(lambda: broker.is_serving, "the broker serves again")
        assert len(cluster.run(client.run(consume(cluster.bootstrap_servers, 20)))) == 20


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    with Simulation(4) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        task = client.run(produce(cluster.bootstrap_servers, 5))
        broker.pause()
        cluster.world.run_for(1.0)
        assert not task.done()
        broker.resume()
        assert cluster.run(task) == list(range(5))


def test_a_client_that_is_cut_off_goes_on_when_the_cut_is_healed() -> None:
    with Simulation(5) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.network.cut(broker.name, client.name)
        task = client.run(produce(cluster.bootstrap_servers, 5))
        cluster.world.run_for(2.0)
        assert not task.done()
        cluster.network.heal(broker.name, client.name)
        assert cluster.run(task) == list(range(5))


def test_a_simulation_that_waits_in_vain_tells_its_story() -> None:
    with Simulation(6) as cluster:
        cluster.brokers[0].kill()
        with pytest.raises(SimulationFailed, match=r"seed 6: not within 3 s: pigs fly(.|\n)*broker-0 +is killed"):
            cluster.wait_until(lambda: False, "pigs fly", 3)


@pytest.mark.parametrize("seed", range(6))
def test_a_leader_that_loses_power_and_comes_back_loses_nothing_that_was_acknowledged(seed: int) -> None:
    """It led again with whatever its disk had kept, whenever the controller had not noticed that it was gone."""
    with Simulation(seed, brokers=3) as cluster:
        client = cluster.client()
        cluster.run(client.run(create_replicated(cluster.bootstrap_servers)))
        assert cluster.run(client.run(produce(cluster.bootstrap_servers, 20))) == list(range(20))
        topic = cluster.brokers[0].image.topic("events")
        assert topic is not None
        leader = cluster.brokers[topic.partitions[0].leader_id]
        leader.lose_power()
        leader.start()
        cluster.wait_until(lambda: leader.is_serving and cluster.is_healthy(), "all is well again", 120)
        values = cluster.run(client.run(consume(cluster.bootstrap_servers, 20)))
        assert values == [b"value %d" % number for number in range(20)]
        assert cluster.invariants.violations == []


async def create_replicated(servers: str) -> None:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic("events", 1, 3, configs={"min.insync.replicas": "2"})])


async def send_orders(servers: str) -> None:
    async with AsyncProducer(bootstrap_servers=servers, acks="all") as producer:
        for number in range(100):
            await producer.send_and_wait("orders", b"order %d" % number)


def test_orders_survive_a_killed_broker() -> None:
    """The example of docs/testing.md: topics of a cluster have replicas unless something else is asked for."""
    with Simulation(seed=7, brokers=3) as cluster:
        client = cluster.client()
        sending = client.run(send_orders(cluster.bootstrap_servers))
        cluster.world.run_for(0.05)
        cluster.brokers[1].kill()
        cluster.run(sending)


def test_the_story_in_the_documentation_is_the_one_of_its_seed() -> None:
    with Simulation(seed=7, brokers=3) as cluster:
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        with pytest.raises(SimulationFailed, match=r"seed 7: not within 1 s(.|\n)*broker-1 +is killed\n.*starts"):
            cluster.wait_until(lambda: cluster.brokers[1].is_serving, "the broker serves again", 1)


async def transact(servers: str) -> None:
    async with AsyncProducer(bootstrap_servers=servers, transactional_id="orders") as producer:
        await producer.init_transactions()
        await producer.begin()
        await producer.send_and_wait("orders", b"3 apples")
        await producer.commit()


def test_a_coordinator_is_killed_as_it_prepares_a_transaction() -> None:
    """The other example of docs/testing.md; the coordinator that follows writes the markers."""
    killed: list[BrokerProcess] = []

    def kill(broker: BrokerProcess) -> bool:
        killed.append(broker)
        broker.kill()
        return True

    with Simulation(seed=7, brokers=3) as cluster:
        cluster.arm(Step.TRANSACTION_PREPARED, kill)
        cluster.run(cluster.client().run(transact(cluster.bootstrap_servers)))
        assert len(killed) == 1
        cluster.wait_until(
            lambda: (
                not any(
                    log.last_stable_offset < log.log_end_offset
                    for broker in cluster.brokers
                    if broker.is_serving
                    for log in [partition.log for partition in broker.partitions() if partition.topic == "orders"]
                )
            ),
            "every replica of the partition has its marker",
        )


def test_a_request_whose_reply_is_lost_took_effect() -> None:
    with Simulation(8) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.run(client.run(produce(cluster.bootstrap_servers, 1)))
        task = client.run(produce(cluster.bootstrap_servers, 5))
        cluster.wait_until(
            lambda: any(end.host == client.name for end in cluster.network.connections()), "a connection"
        )
        for end in cluster.network.connections():
            end.peer.breaks_at_next_send = True
        assert cluster.run(task) == list(range(1, 6)), "an idempotent producer tries again, and nothing is twice"
        assert broker.is_serving


def test_a_slow_disk_delays_what_it_writes() -> None:
    def seconds(slow_seconds: float) -> float:
        with Simulation(9) as cluster:
            client, disk = cluster.client(), cluster.brokers[0].disk
            cluster.run(client.run(produce(cluster.bootstrap_servers, 1)))
            assert disk is not None
            disk.slow_seconds = slow_seconds
            began = cluster.world.now
            cluster.run(client.run(produce(cluster.bootstrap_servers, 10)))
            return cluster.world.now - began

    assert seconds(1.0) > 1.0 > seconds(0.0)


def test_bytes_between_other_hosts_overtake_those_of_a_slow_direction() -> None:
    def seconds(slow_seconds: float) -> float:
        with Simulation(10, brokers=3) as cluster:
            client = cluster.client()
            cluster.run(client.run(create_replicated(cluster.bootstrap_servers)))
            for broker in cluster.brokers:
                cluster.network.slow_down(broker.name, client.name, slow_seconds)
            began = cluster.world.now
            cluster.run(client.run(produce(cluster.bootstrap_servers, 5)))
            return cluster.world.now - began

    assert seconds(0.5) > 2.5 > seconds(0.0)


def test_the_state_of_coordinators_is_compared_with_their_logs() -> None:
    """The comparison must be able to fail: a change of the state that is in no log is found."""
    with Simulation(11) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.run(client.run(produce(cluster.bootstrap_servers, 5)))
        cluster.run(client.run(consume(cluster.bootstrap_servers, 5)))
        cluster.run(client.run(transact(cluster.bootstrap_servers)))
        cluster.world.run_for(10)
        assert list(differences(broker)) == []
        groups = broker.node.groups.runtime
        (group,) = (group for index in groups.active_partitions() for group in groups.shard(index)._groups.values())
        group.offsets._values.clear()
        transactions = broker.node.transactions.edge.runtime
        for index in transactions.active_partitions():
            transactions.shard(index)._transactions.clear()
        found = list(differences(broker))
        assert any("offsets of group readers" in each for each in found)
        assert any("transaction of orders" in each for each in found)


async def remind(servers: str) -> None:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(DELAYED_TOPIC, 1, 1, configs={"tidelog.delay.enable": "true"})])
    async with AsyncProducer(bootstrap_servers=servers, acks="all") as producer:
        for delay in (b"300", b"200", b"1h"):
            await producer.send_and_wait(DELAYED_TOPIC, delay, headers=[("tidelog-delay", delay)])


def test_delayed_records_are_compared_with_their_log() -> None:
    """The comparison must be able to fail: deliveries out of order, doubled or early, and another index are found."""
    with Simulation(12) as cluster:
        client, broker = cluster.client(), cluster.brokers[0]
        cluster.run(client.run(remind(cluster.bootstrap_servers)))
        cluster.world.run_for(1)
        partition = broker.find_partition(DELAYED_TOPIC, 0)
        delayed = broker.node.delayed.find(DELAYED_TOPIC, 0)
        assert partition is not None
        assert delayed is not None

        def differences() -> list[str]:
            committed = CommittedLog()
            committed.extend(partition.log)
            return list(delayed_state.differences(broker, partition, committed, {}))

        assert differences() == []
        assert cluster.invariants.waiting_values(partition) == [b"1h"]
        (far,) = delayed.index.ordered()
        delayed.index.remove(far)
        assert differences() == ["0 records wait in the index, 1 by the log"]

        def deliver_the_far_one() -> None:
            delayed.index.add(far)
            delayed._own_end = 0
            delayed.deliver(broker.clock.wall_ms() + 2 * 3_600_000)
            broker.node.replica_manager.staged(partition)
            broker.node.replica_manager.end_turn()
            delayed.apply()

        deliver_the_far_one()
        assert any("a time to come" in each for each in cluster.invariants.violations)
        deliver_the_far_one()
        assert any("delivered twice: b'1h'" in each for each in differences())


async def switch_delay(servers: str, value: str) -> None:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        change = ConfigChange("tidelog.delay.enable", value)
        await admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, DELAYED_TOPIC): [change]})


async def create_and_remind(servers: str, *, is_enabled: bool) -> None:
    if is_enabled:
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            settings = {"tidelog.delay.enable": "true", "min.insync.replicas": "1"}
            await admin.create_topics([NewTopic(DELAYED_TOPIC, 1, 2, configs=settings)])
    async with AsyncProducer(bootstrap_servers=servers, acks="all") as producer:
        await producer.send_and_wait(DELAYED_TOPIC, b"late", headers=[("tidelog-delay", b"30s")])


async def create_without_delay(servers: str) -> None:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(DELAYED_TOPIC, 1, 2, configs={"min.insync.replicas": "1"})])


@pytest.mark.parametrize("saw_setting", [True, False], ids=["killed before its checkpoint", "down all the while"])
def test_a_replica_delivers_what_waits_though_the_setting_is_off_when_it_starts(saw_setting: bool) -> None:
    """Records that wait when the setting is switched off are delivered, also by a replica that was down by then."""
    with Simulation(13, brokers=2) as cluster:
        client, servers = cluster.client(), cluster.bootstrap_servers
        if saw_setting:
            cluster.run(client.run(create_and_remind(servers, is_enabled=True)))
        else:
            cluster.run(client.run(create_without_delay(servers)))
        cluster.wait_until(cluster.is_healthy, "both replicas are in sync")
        leader = next(each for each in cluster.brokers if _leads(each))
        follower = next(each for each in cluster.brokers if each is not leader)
        follower.kill()
        if not saw_setting:
            cluster.run(client.run(switch_delay(servers, "true")))
            cluster.run(client.run(create_and_remind(servers, is_enabled=False)))
        cluster.run(client.run(switch_delay(servers, "false")))
        follower.start()
        cluster.wait_until(cluster.is_healthy, "the follower is in sync again")
        leader.kill()
        cluster.wait_until(lambda: _leads(follower), "the follower leads")
        cluster.wait_until(lambda: _values_in(follower) == [b"late"], "the record is delivered", 120)
        assert cluster.invariants.violations == []


def _leads(broker: BrokerProcess) -> bool:
    partition = broker.find_partition(DELAYED_TOPIC, 0) if broker.is_serving else None
    return partition is not None and partition.is_leader


def _values_in(broker: BrokerProcess) -> list[bytes | None]:
    partition = broker.find_partition(DELAYED_TOPIC, 0)
    assert partition is not None
    batches = read_batches(partition.log, 0, partition.log.high_watermark)
    return [record.value for data in batches if not read_header(data).is_control for record in iterate_records(data)]
