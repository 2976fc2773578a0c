"""What can go wrong in a simulation: a table of faults, and schedules of them drawn from the seed.

A schedule is made before the simulation runs, so that a seed that fails can be tried again with fewer faults. A fault
that does not apply when its time comes (nothing to kill, nothing to cut) does not count as fired.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation

Begin = Callable[[Simulation, random.Random, float], bool]
"""Make a fault happen for some seconds; whether it applied."""


class Fault(NamedTuple):
    """One entry of a schedule. `choice` seeds what the fault draws, whatever else the schedule holds."""

    at: float
    name: str
    seconds: float
    choice: int

    def __str__(self) -> str:
        return f"{self.at:8.3f} s  {self.name} for {self.seconds:.1f} s"


def draw_schedule(seed: int, seconds: float, count: int) -> list[Fault]:
    """Faults for a simulation of this length, in the order of their times."""
    chance = random.Random(f"schedule {seed}")
    names = sorted(FAULTS)
    return sorted(
        Fault(chance.uniform(0.5, seconds), chance.choice(names), chance.uniform(0.2, 5.0), chance.randrange(1 << 30))
        for _ in range(count)
    )


def _serving(cluster: Simulation, chance: random.Random) -> BrokerProcess | None:
    """A broker that serves and is not paused."""
    brokers = [each for each in cluster.brokers if each.is_serving and not each.is_paused]
    return chance.choice(brokers) if brokers else None


def _expendable(cluster: Simulation, chance: random.Random) -> BrokerProcess | None:
    """A broker that serves and may be taken down."""
    broker = _serving(cluster, chance)
    return broker if cluster.may_take_down() else None


def _restart_later(cluster: Simulation, broker: BrokerProcess, seconds: float) -> None:
    def restart() -> None:
        if not broker.is_alive:
            broker.start()

    cluster.world.after(seconds, restart)


def _kill(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    broker = _expendable(cluster, chance)
    if broker is None:
        return False
    broker.kill()
    _restart_later(cluster, broker, seconds)
    return True


def _stop(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    broker = _expendable(cluster, chance)
    if broker is None:
        return False
    broker.stop()
    _restart_later(cluster, broker, seconds + 5)
    return True


def _pause(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    broker = _serving(cluster, chance)
    if broker is None:
        return False
    broker.pause()

    def resume() -> None:
        if broker.is_alive and broker.is_paused:
            broker.resume()

    cluster.world.after(seconds, resume)
    return True


def _lose_power(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    """One host at a time, and only while every partition is elsewhere, too: more would lose records anywhere."""
    broker = _serving(cluster, chance)
    if broker is None or not cluster.can_lose(broker):
        return False
    cluster.lose_power(broker)
    _restart_later(cluster, broker, seconds)
    return True


def _hosts(cluster: Simulation) -> list[str]:
    return [each.name for each in (*cluster.brokers, *cluster.clients)]


def _cut(cluster: Simulation, chance: random.Random, seconds: float, *, both_ways: bool) -> bool:
    if len(cluster.brokers) + len(cluster.clients) < 2:
        return False
    first, second = chance.choice(cluster.brokers).name, chance.choice(_hosts(cluster))
    if first == second:
        return False
    pairs = [(first, second), (second, first)]
    if not both_ways:
        pairs = [chance.choice(pairs)]
    for source, target in pairs:
        cluster.world.tell("network", f"lets nothing through from {source} to {target}")
        cluster.network.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            cluster.network.heal(source, target)
        cluster.world.tell("network", f"{first} and {second} reach each other again")

    cluster.world.after(seconds, heal)
    return True


def _cut_one_way(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, chance, seconds, both_ways=False)


def _cut_both_ways(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, chance, seconds, both_ways=True)


def _isolate(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    """A broker that no other broker reaches, while clients and the metadata tree do."""
    others = [each.name for each in cluster.brokers]
    if len(others) < 2:
        return False
    alone = chance.choice(others)
    others.remove(alone)
    cluster.world.tell("network", f"isolates {alone} from the other brokers")
    for other in others:
        cluster.network.cut(alone, other)
        cluster.network.cut(other, alone)

    def heal() -> None:
        cluster.world.tell("network", f"{alone} is no longer isolated")
        for other in others:
            cluster.network.heal(alone, other)
            cluster.network.heal(other, alone)

    cluster.world.after(seconds, heal)
    return True


def _cut_off_tree(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    broker = _serving(cluster, chance)
    if broker is None:
        return False
    broker.cut_off_tree()
    cluster.world.after(seconds, broker.reach_tree)
    return True


def _expire_session(cluster: Simulation, chance: random.Random, _seconds: float) -> bool:
    broker = _serving(cluster, chance)
    if broker is None or broker.store is None or broker.store.is_suspended:
        return False
    broker.expire_session()
    return True


def _break_connections(cluster: Simulation, chance: random.Random, _seconds: float) -> bool:
    connections = cluster.network.connections()
    if not connections:
        return False
    for end in chance.sample(connections, min(len(connections), chance.randrange(1, 4))):
        cluster.world.tell("network", f"breaks a connection between {end.host} and {end.peer.host}")
        cluster.network.break_connection(end)
    return True


def _slow_network(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    latency = cluster.network.latency
    latency.spike_probability = chance.uniform(0.01, 0.3)
    latency.spike_seconds = chance.uniform(0.05, 2.0)
    cluster.world.tell("network", f"delays up to {latency.spike_seconds:.2f} s")

    def calm() -> None:
        latency.spike_probability = 0.0

    cluster.world.after(seconds, calm)
    return True


def _late_watches(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    cluster.watch_seconds_max = chance.uniform(0.05, 3.0)
    cluster.world.tell("tree", f"notifies up to {cluster.watch_seconds_max:.2f} s late")

    def calm() -> None:
        cluster.watch_seconds_max = 0.005

    cluster.world.after(seconds, calm)
    return True


def _jump_clock(cluster: Simulation, chance: random.Random, _seconds: float) -> bool:
    broker = chance.choice(cluster.brokers)
    jump_ms = chance.randrange(-60_000, 60_000)
    broker.clock.skew_ms += jump_ms
    cluster.world.tell(broker.name, f"has its clock set by {jump_ms} ms")
    return True


def _trouble_disk(cluster: Simulation, chance: random.Random, seconds: float, *, is_full: bool) -> bool:
    """A disk that takes no more writes, or fails at each of them, until it is repaired and its broker restarted."""
    broker = _expendable(cluster, chance)
    if broker is None or broker.disk is None:
        return False
    disk = broker.disk
    disk.is_full, disk.is_failing = is_full, not is_full
    cluster.world.tell(broker.name, "has a full disk" if is_full else "has a failing disk")

    def repair() -> None:
        disk.is_full = disk.is_failing = False
        cluster.world.tell(broker.name, "has its disk repaired")
        _restart_later(cluster, broker, 0.5)

    cluster.world.after(seconds, repair)
    return True


def _fill_disk(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    return _trouble_disk(cluster, chance, seconds, is_full=True)


def _break_disk(cluster: Simulation, chance: random.Random, seconds: float) -> bool:
    return _trouble_disk(cluster, chance, seconds, is_full=False)


FAULTS: Final[dict[str, Begin]] = {
    "kill a broker": _kill,
    "shut a broker down": _stop,
    "pause a broker": _pause,
    "power failure": _lose_power,
    "cut one way": _cut_one_way,
    "cut both ways": _cut_both_ways,
    "isolate a broker": _isolate,
    "cut off the metadata tree": _cut_off_tree,
    "expire a session": _expire_session,
    "break connections": _break_connections,
    "slow network": _slow_network,
    "late watches": _late_watches,
    "clock jump": _jump_clock,
    "full disk": _fill_disk,
    "failing disk": _break_disk,
}
