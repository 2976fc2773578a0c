"""Faults that belong together: several of them inside one failover, aimed at its narrowest steps.

A function here takes the broker that it happens to, and returns whether the fault applied.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from tidelog.client import AsyncAdmin, ClientError, NewTopic, TopicPartition
from tidelog.replication.partition import Partition
from tidelog.testing.simulation import network_faults, process_faults
from tidelog.testing.simulation.invariants import Step
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation
from tidelog.wire.errors import ApiError

_LATE_SECONDS: Final = 2.5
_TOPICS: Final = ("events", "orders")
"""Those that the clients of every seed write to."""


def _lag_seconds(cluster: Simulation) -> float:
    """After this time a follower that does not fetch has left the in-sync replicas: they are looked at now and then."""
    return 1.6 * cluster.replica_lag_seconds


def cut_off_from_all_but_clients(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A leader that goes on serving its clients while another one is elected."""
    return network_faults.isolate(cluster, broker, chance, seconds + 2) and process_faults.depose(
        cluster, broker, chance, seconds
    )


def lose_leader_behind_a_follower(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A follower leaves the ISR because it alone does not reach the leader; with the next commit the leader is gone."""
    followers = _other_brokers(cluster, broker)
    if not followers or not cluster.may_strike():
        return False
    follower = chance.choice(followers)
    network_faults.cut_pair(cluster, broker, follower, _lag_seconds(cluster) + seconds)

    def on_commit(committing: BrokerProcess) -> bool:
        return committing is broker and process_faults.kill(cluster, broker, chance, seconds)

    def on_shrunk(shrinking: BrokerProcess) -> bool:
        if shrinking is broker:
            cluster.arm(Step.COMMITTED, on_commit)
        return shrinking is broker

    cluster.arm(Step.ISR_SHRANK, on_shrunk)
    return True


def kill_all(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """Every broker is killed: what they wrote is there, what they knew is as old as their checkpoints."""
    if not cluster.may_strike():
        return False
    for each in cluster.brokers:
        if each.is_alive and not each.is_paused:
            process_faults.kill(cluster, each, chance, chance.uniform(0.1, seconds))
    return True


def kill_all_behind_a_follower(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """Every broker is killed after one of them has left the in-sync replicas; one of the others comes back late.

    What leads then knows an old high watermark, and cannot move it before a follower has joined.
    """
    others = _other_brokers(cluster, broker)
    lag = _lag_seconds(cluster)
    if not others or not network_faults.isolate(cluster, broker, chance, lag):
        return False
    late = chance.choice(others)

    def strike() -> None:
        if cluster.is_at_peace or not cluster.may_strike():
            return
        for each in cluster.brokers:
            if each.is_alive and not each.is_paused:
                process_faults.kill(cluster, each, chance, 0.1 + seconds / 8 + _LATE_SECONDS * (each is late))

    cluster.world.after(lag, strike)
    return True


def lose_all_power(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """Every host loses power: nothing acknowledged is lost where every record is synced before that."""
    alive = [each for each in cluster.brokers if each.is_alive]
    if not cluster.syncs_every_record or len(alive) < len(cluster.brokers) or not cluster.may_strike():
        return False
    for each in alive:
        each.lose_power()
        process_faults.restart_later(cluster, each, chance.uniform(0.1, seconds))
    return True


def lose_answer_about_grown_isr(
    cluster: Simulation, controller: BrokerProcess, _chance: random.Random, seconds: float
) -> bool:
    """The controller has added a follower to an ISR; the leader does not hear of it, nor from the follower again."""
    growth = cluster.invariants.tree.last_growth
    if growth is None or not cluster.may_strike():
        return False
    leader, follower = cluster.brokers[growth.leader], cluster.brokers[growth.added]
    if controller is leader or not leader.is_serving:
        return False
    lasting = _lag_seconds(cluster) + seconds
    cluster.world.tell("simulator", f"{leader.name} does not hear that {follower.name} is in sync")
    network_faults.cut_pair(cluster, leader, follower, lasting)
    if controller is not follower:
        # Its answer is held back, and not its fetches: what they both have can still be committed.
        cluster.network.hold_replies(controller.name, leader.name, lasting)
    for part in (0.7, 0.9):
        cluster.world.after(part * lasting, lambda: cluster.burst(growth.topic, growth.partition))
    return True


def lose_answer_when_a_follower_is_back(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A follower is away until it has left the in-sync replicas; when it is back, no leader hears of it."""
    if broker.active_controller_epoch() is not None:
        return False  # no leader would reach it to say that it is away
    if not network_faults.isolate(cluster, broker, chance, _lag_seconds(cluster)):
        return False

    def on_grown(controller: BrokerProcess) -> bool:
        growth = cluster.invariants.tree.last_growth
        is_back = growth is not None and growth.added == broker.broker_id
        return is_back and lose_answer_about_grown_isr(cluster, controller, chance, seconds)

    cluster.arm(Step.ISR_GROWN, on_grown)
    return True


def pass_leadership_to_and_fro(
    cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """Two brokers that do not reach each other lead a partition by turns, each for a moment."""
    able = [each for each in cluster.brokers if each.is_well and each.active_controller_epoch() is None]
    if len(able) < 2 or not cluster.may_strike():
        return False
    first, second = chance.sample(able, 2)
    shared = [each for each in first.partitions() if _is_shared(each, second)]
    if not shared:
        return False
    partition = chance.choice(shared)
    network_faults.cut_pair(cluster, first, second, 1.0 + seconds / 2)
    pauses = [chance.uniform(0.0, 0.4) for _ in range(6)]
    cluster.client().run(_elect_by_turns(cluster, partition, [first.broker_id, second.broker_id], pauses))
    return True


async def _elect_by_turns(cluster: Simulation, partition: Partition, pair: list[int], pauses: list[float]) -> None:
    where = TopicPartition(partition.topic, partition.index)
    rest = [each for each in partition.replicas if each not in pair]
    async with _admin(cluster) as admin:
        for pause in pauses:
            if cluster.is_at_peace:
                return
            pair.reverse()
            with suppress(ClientError, ApiError):
                await admin.alter_partition_reassignments({where: [*pair, *rest]})
                await admin.elect_leaders([where])
            cluster.burst(*where)
            await asyncio.sleep(pause)


def delay_answer_about_the_isr(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A leader learns that a follower is back in sync only after it has lost and regained the leadership."""
    if broker.active_controller_epoch() is not None:
        return False
    if not network_faults.isolate(cluster, broker, chance, _lag_seconds(cluster)):
        return False

    def on_grown(controller: BrokerProcess) -> bool:
        growth = cluster.invariants.tree.last_growth
        if growth is None or growth.added != broker.broker_id or growth.leader == controller.broker_id:
            return False
        leader = cluster.brokers[growth.leader]
        partition = leader.find_partition(growth.topic, growth.partition) if leader.is_serving else None
        if partition is None:
            return False
        cluster.network.hold_replies(controller.name, leader.name, 0.7 + seconds / 4)
        cluster.world.tell("network", f"holds back what {controller.name} answers {leader.name}")
        turns = _elect_by_turns(cluster, partition, [leader.broker_id, broker.broker_id], [0.05, 0.05])
        cluster.client().run(turns)
        return True

    cluster.arm(Step.ISR_GROWN, on_grown)
    return True


def prefer_a_lagging_leader(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """The preferred leader is elected while it is alive and out of sync."""
    followed = [
        each
        for each in broker.partitions()
        if each.topic in _TOPICS and not each.is_leader and broker.broker_id in each.replicas
    ]
    if not followed or broker.active_controller_epoch() is not None:
        return False
    partition = chance.choice(followed)
    lag = _lag_seconds(cluster)
    if not network_faults.isolate(cluster, broker, chance, lag + seconds):
        return False
    cluster.client().run(_prefer(cluster, partition, broker.broker_id, lag))
    return True


async def _prefer(cluster: Simulation, partition: Partition, preferred: int, lag: float) -> None:
    where = TopicPartition(partition.topic, partition.index)
    replicas = [preferred, *(each for each in partition.replicas if each != preferred)]
    async with _admin(cluster) as admin:
        with suppress(ClientError, ApiError):
            await admin.alter_partition_reassignments({where: replicas})
        await asyncio.sleep(lag)
        for _ in range(3):
            with suppress(ClientError, ApiError):
                await admin.elect_leaders([where])
            await asyncio.sleep(0.2)


def lose_controller_in_a_move(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A partition moves to a broker that cannot follow; meanwhile another controller takes over."""
    strangers = [
        each
        for other in _other_brokers(cluster, broker)
        for each in other.partitions()
        if each.topic in _TOPICS and each.is_leader and broker.broker_id not in each.replicas
    ]
    if not strangers or not network_faults.isolate(cluster, broker, chance, 1.0 + seconds):
        return False
    partition = chance.choice(strangers)
    where = TopicPartition(partition.topic, partition.index)
    replicas = [*partition.replicas[:-1], broker.broker_id]

    async def move(admin: AsyncAdmin) -> None:
        await admin.alter_partition_reassignments({where: replicas})

    cluster.client().run(_administrate(cluster, move))
    _replace_controller_at(cluster, Step.MOVE_BEGUN, chance, seconds)
    return True


def lose_controller_in_a_deletion(
    cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float
) -> bool:
    """A topic is deleted while a broker with replicas of it is down; meanwhile another controller takes over."""
    name = f"doomed-{chance.randrange(1 << 20)}"
    if not _other_brokers(cluster, broker) or not cluster.may_strike():
        return False

    async def delete(admin: AsyncAdmin) -> None:
        await admin.create_topics([NewTopic(name, 2, min(len(cluster.brokers), 3))])
        await asyncio.sleep(0.3)
        if broker.is_serving and not broker.is_paused and not cluster.is_at_peace:
            process_faults.kill(cluster, broker, chance, 1.0 + seconds)
        _replace_controller_at(cluster, Step.DELETION_BEGUN, chance, seconds)
        await admin.delete_topics([name])

    cluster.client().run(_administrate(cluster, delete))
    return True


def _replace_controller_at(cluster: Simulation, step: Step, chance: random.Random, seconds: float) -> None:
    def on_step(broker: BrokerProcess) -> bool:
        return process_faults.replace_controller(cluster, broker, chance, seconds)

    if not cluster.is_at_peace:
        cluster.arm(step, on_step)


async def _administrate(cluster: Simulation, act: Callable[[AsyncAdmin], Awaitable[None]]) -> None:
    async with _admin(cluster) as admin:
        with suppress(ClientError, ApiError):
            await act(admin)


@asynccontextmanager
async def _admin(cluster: Simulation) -> AsyncIterator[AsyncAdmin]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "request.timeout.ms": 2_000}
    with suppress(ClientError, ApiError):
        async with AsyncAdmin({**settings, "default.api.timeout.ms": 3_000, "bootstrap.timeout.ms": 5_000}) as admin:
            yield admin


def _is_shared(partition: Partition, other: BrokerProcess) -> bool:
    theirs = other.find_partition(partition.topic, partition.index)
    return partition.topic in _TOPICS and theirs is not None and bool(partition.replicas)


def _other_brokers(cluster: Simulation, broker: BrokerProcess) -> list[BrokerProcess]:
    return [each for each in cluster.brokers if each is not broker and each.is_serving]
