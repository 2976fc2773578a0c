"""Faults of the network: directions that are cut, connections that break, delays.

A function here takes the broker that it happens to, and returns whether the fault applied.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tidelog.testing.simulation.network import End
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation


def _other_host(cluster: Simulation, broker: BrokerProcess, chance: random.Random) -> str:
    return chance.choice([each.name for each in (*cluster.brokers, *cluster.clients) if each is not broker])


def cut_for(cluster: Simulation, pairs: Sequence[tuple[str, str]], seconds: float) -> None:
    """Let nothing through in these directions for a while."""
    for source, target in pairs:
        cluster.world.tell("network", f"lets nothing through from {source} to {target}")
        cluster.network.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            cluster.network.heal(source, target)
        cluster.world.tell("network", f"{' and '.join(dict.fromkeys(pairs[0]))} reach each other again")

    cluster.world.after(seconds, heal)


def cut_pair(cluster: Simulation, first: BrokerProcess, second: BrokerProcess, seconds: float) -> None:
    """Let nothing through between two brokers for a while."""
    cut_for(cluster, [(first.name, second.name), (second.name, first.name)], seconds)


def _cut(cluster: Simulation, first: str, second: str, chance: random.Random, seconds: float, *, both: bool) -> bool:
    if not cluster.may_strike():
        return False
    pairs = [(first, second), (second, first)]
    cut_for(cluster, pairs if both else [chance.choice(pairs)], seconds)
    return True


def cut_one_way(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, broker.name, _other_host(cluster, broker, chance), chance, seconds, both=False)


def cut_both_ways(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, broker.name, _other_host(cluster, broker, chance), chance, seconds, both=True)


def cut_brokers(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """Two brokers do not reach each other, or one of them does not reach the other."""
    others = [each.name for each in cluster.brokers if each is not broker]
    if not others:
        return False
    both = chance.random() < 0.4
    return _cut(cluster, broker.name, chance.choice(others), chance, seconds, both=both)


def isolate(cluster: Simulation, broker: BrokerProcess, _chance: random.Random, seconds: float) -> bool:
    """No other broker reaches this one, while clients and the metadata tree do."""
    alone = broker.name
    others = [each.name for each in cluster.brokers if each is not broker]
    if not others or not cluster.may_strike():
        return False
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


def _connections_of(cluster: Simulation, broker: BrokerProcess) -> list[End]:
    return [end for end in cluster.network.connections() if broker.name in (end.host, end.peer.host)]


def break_connections(cluster: Simulation, broker: BrokerProcess, chance: random.Random, _seconds: float) -> bool:
    connections = _connections_of(cluster, broker)
    if not connections:
        return False
    for end in chance.sample(connections, min(len(connections), chance.randrange(1, 4))):
        cluster.world.tell("network", f"breaks a connection between {end.host} and {end.peer.host}")
        cluster.network.break_connection(end)
    return True


def lose_replies(cluster: Simulation, broker: BrokerProcess, chance: random.Random, _seconds: float) -> bool:
    """The next requests of some connections take effect, but their replies are lost with the connection."""
    connections = [end for end in _connections_of(cluster, broker) if end.peer.host == broker.name]
    if not connections:
        return False
    for end in chance.sample(connections, min(len(connections), chance.randrange(1, 5))):
        cluster.world.tell("network", f"loses the next reply of {broker.name} to {end.host}")
        end.peer.breaks_at_next_send = True
    return True


def slow_network(cluster: Simulation, _broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    latency = cluster.network.latency
    latency.spike_probability = chance.uniform(0.01, 0.3)
    latency.spike_seconds = chance.uniform(0.05, 2.0)
    cluster.world.tell("network", f"delays up to {latency.spike_seconds:.2f} s")

    def calm() -> None:
        latency.spike_probability = 0.0

    cluster.world.after(seconds, calm)
    return True


def reorder_hosts(cluster: Simulation, broker: BrokerProcess, chance: random.Random, seconds: float) -> bool:
    """One direction between two hosts becomes slow, so that what goes through other hosts overtakes it."""
    if len(cluster.brokers) + len(cluster.clients) < 2:
        return False
    source, target = broker.name, _other_host(cluster, broker, chance)
    if chance.random() < 0.5:
        source, target = target, source
    delay = chance.uniform(0.02, 1.0)
    cluster.world.tell("network", f"takes {delay:.2f} s from {source} to {target}")
    cluster.network.slow_down(source, target, delay)
    cluster.world.after(seconds, lambda: cluster.network.slow_down(source, target, 0.0))
    return True
