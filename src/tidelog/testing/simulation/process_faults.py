"""Faults of brokers, their disks, their clocks and their sessions with the metadata tree.

A function here takes the broker that it happens to, and returns whether the fault applied.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tidelog.testing.simulation.processes import SESSION_SECONDS, BrokerProcess
from tidelog.testing.simulation.simulation import Simulation

Strike = Callable[[Simulation, BrokerProcess, random.Random, float], bool]
"""Make something happen to a broker for some seconds."""

_SHUTDOWN_SECONDS: Final = 5.0
_PAUSED_CLIENT_FACTOR: Final = 2.0
_ROLLING_SECONDS: Final = 0.2
"""How often a rolling restart looks whether the next broker can be stopped."""


def restart_later(cluster: Simulation, broker: BrokerProcess, seconds: float) -> None:
    """Start a broker after a while, unless it runs by then."""

    def restart() -> None:
        if not broker.is_alive:
            broker.start()

    cluster.world.after(seconds, restart)


# --- processes ---


def kill(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    if not cluster.may_strike():
        return False
    broker.kill()
    restart_later(cluster, broker, seconds)
    return True


def shut_down(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    if not cluster.may_strike():
        return False
    broker.stop()
    restart_later(cluster, broker, seconds + _SHUTDOWN_SECONDS)
    return True


def restart_all_in_turn(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, _seconds: float) -> bool:
    """A rolling restart that begins with `broker`: each is stopped once every replica is in sync again."""
    first = broker.broker_id
    waiting = [*cluster.brokers[first:], *cluster.brokers[:first]]
    if len(waiting) < 2 or not cluster.may_strike():
        return False

    def go_on() -> None:
        if waiting and cluster.is_healthy() and cluster.may_strike() and not waiting[0].is_paused:
            following = waiting.pop(0)
            following.restarts_after_stop = True
            following.stop()
        if waiting and not cluster.is_at_peace:
            cluster.world.after(_ROLLING_SECONDS, go_on)

    cluster.world.tell("simulator", "restarts the brokers in turn")
    go_on()
    return True


def pause(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    if not cluster.may_strike():
        return False
    broker.pause()

    def resume() -> None:
        if broker.is_alive and broker.is_paused:
            broker.resume()

    cluster.world.after(seconds, resume)
    return True


def pause_client(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """A client stands still, most often for longer than its sessions last, and wakes as a zombie."""
    running = [each for each in cluster.clients if each.is_alive and not each.is_paused]
    if not running:
        return False
    client = chance.choice(running)
    client.pause()
    cluster.world.after(_PAUSED_CLIENT_FACTOR * seconds, lambda: client.resume() if client.is_paused else None)
    return True


def replace_client(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """A client is killed without a word, and another one takes its place later."""
    running = [each for each in cluster.clients if each.is_alive and not each.is_paused]
    if not running:
        return False
    cluster.replace_client(chance.choice(running), seconds)
    return True


def lose_power(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    """One host at a time, and only while every partition is elsewhere, too: more would lose records anywhere."""
    if not cluster.can_lose(broker):
        return False
    cluster.lose_power(broker)
    restart_later(cluster, broker, seconds)
    return True


def damage_indexes(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """A broker is killed, and when it is back some of its indexes are gone or cut off."""
    if broker.disk is None or not kill(cluster, broker, chance, seconds):
        return False
    broker.disk.damage_indexes(chance)
    return True


# --- sessions ---


def cut_off_tree(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    if not cluster.may_strike():
        return False
    broker.cut_off_tree()
    cluster.world.after(seconds, broker.reach_tree)
    return True


def depose(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """Cut a broker off the tree until its session has expired, so that it learns late of what replaced it."""
    return cut_off_tree(cluster, broker, chance, seconds + 2 * SESSION_SECONDS)


def expire_session(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, _seconds: float) -> bool:
    if broker.store is None or broker.store.is_suspended or not cluster.may_strike():
        return False
    broker.expire_session()
    return True


def delay_watches(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    cluster.watch_seconds_max = chance.uniform(0.05, 3.0)
    answers_lost = chance.choice((0.0, 0.1))
    late = f"notifies up to {cluster.watch_seconds_max:.2f} s late"
    cluster.world.tell("tree", f"{late} and does not answer {answers_lost:.0%} of the calls in time")
    for each in cluster.brokers:
        each.answers_lost = answers_lost

    def calm() -> None:
        cluster.watch_seconds_max = 0.005
        for each in cluster.brokers:
            each.answers_lost = 0.0

    cluster.world.after(seconds, calm)
    return True


def replace_controller(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """The active controller dies, or loses its session, and another one goes on with its work."""
    active = [each for each in cluster.brokers if each.is_well and each.active_controller_epoch() is not None]
    strike = chance.choice((kill, expire_session, depose))
    return bool(active) and strike(cluster, active[0], chance, seconds)


# --- clocks and disks ---


def jump_clock(cluster: Simulation, broker: BrokerProcess, chance: random.Random, _seconds: float) -> bool:
    jump_ms = chance.randrange(-60_000, 60_000)
    broker.clock.skew_ms += jump_ms
    cluster.world.tell(broker.name, f"has its clock set by {jump_ms} ms")
    return True


def drift_clock(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """A clock that is fast or slow, by up to a tenth, and set right in the end."""
    drift_ms = chance.choice((-1, 1)) * chance.randrange(5, 100)
    ends_at = cluster.world.now + seconds
    cluster.world.tell(broker.name, f"has a clock that is off by {drift_ms} ms more every second")

    def go_on() -> None:
        if cluster.world.now < ends_at:
            broker.clock.skew_ms += drift_ms
            cluster.world.after(1.0, go_on)
        else:
            broker.clock.skew_ms = 0

    go_on()
    return True


def _trouble_disk(cluster: Simulation, broker: BrokerProcess, seconds: float, *, is_full: bool) -> bool:
    """A disk that takes no more writes, or fails at each of them, until it is repaired and its broker restarted."""
    disk = broker.disk
    if disk is None or not cluster.may_strike():
        return False
    disk.is_full, disk.is_failing = is_full, not is_full
    cluster.world.tell(broker.name, "has a full disk" if is_full else "has a failing disk")

    def repair() -> None:
        disk.is_full = disk.is_failing = False
        cluster.world.tell(broker.name, "has its disk repaired")
        restart_later(cluster, broker, 0.5)

    cluster.world.after(seconds, repair)
    return True


def fill_disk(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    return _trouble_disk(cluster, broker, seconds, is_full=True)


def break_disk(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    return _trouble_disk(cluster, broker, seconds, is_full=False)


def slow_disk(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    disk = broker.disk
    if disk is None:
        return False
    disk.slow_seconds = chance.uniform(0.01, 0.5)
    cluster.world.tell(broker.name, f"has a disk that takes up to {disk.slow_seconds:.2f} s for a write")

    def calm() -> None:
        disk.slow_seconds = 0.0

    cluster.world.after(seconds, calm)
    return True
