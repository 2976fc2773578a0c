"""What is done to a cluster of real processes: a table of faults, and schedules of them drawn from a seed.

A fault begins, lasts, and is undone before the function returns. Faults of one schedule may overlap. A fault that does
not apply when its time comes (the broker is down already) does not count. What the processes do in between is not
determined by the seed: a schedule that fails may need several runs to fail again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.compat.chaos.cluster import BROKERS, ChaosCluster, wait_until
from tests.compat.chaos.load import EVENTS, PARTITIONS
from tests.compat.chaos.network import TREE

Happen = Callable[[ChaosCluster, random.Random, float], bool]
"""Make a fault happen for some seconds and undo it; whether it applied."""

_REGISTERED_SECONDS: Final = 20.0


class Fault(NamedTuple):
    """One entry of a schedule. `choice` seeds what the fault draws, whatever else the schedule holds."""

    at: float
    name: str
    seconds: float
    choice: int

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.name} for {self.seconds:.1f} s"


def draw_schedule(seed: int, seconds: float, count: int, tree: str, names: Sequence[str] = ()) -> list[Fault]:
    """Faults in the order of their times. Seeds that follow each other begin with each kind of fault in turn."""
    chance = random.Random(f"chaos {seed}")
    known = [name for name in sorted(FAULTS) if tree == "zookeeper" or name not in ZOOKEEPER_ONLY]
    names = [name for name in names if name in known] or known
    drawn = [names[seed // 2 % len(names)], *(chance.choice(names) for _ in range(count - 1))]
    return sorted(
        Fault(chance.uniform(0.5, seconds), name, chance.uniform(0.5, 5.0), chance.randrange(1 << 30)) for name in drawn
    )


# --- brokers ---


def _kill_one(cluster: ChaosCluster, broker: int, seconds: float) -> bool:
    if broker not in BROKERS or not cluster.kill(broker):
        return False
    time.sleep(seconds)
    cluster.start_again(broker)
    return True


def _kill_leader(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    return _kill_one(cluster, cluster.leader(EVENTS, chance.randrange(PARTITIONS)), seconds)


def _kill_follower(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    leader = cluster.leader(EVENTS)
    return _kill_one(cluster, chance.choice([broker for broker in BROKERS if broker != leader]), seconds)


def _kill_controller(cluster: ChaosCluster, _chance: random.Random, seconds: float) -> bool:
    return _kill_one(cluster, cluster.controller(), seconds)


def _kill_two(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    killed = [broker for broker in chance.sample(BROKERS, 2) if cluster.kill(broker)]
    time.sleep(seconds)
    for broker in killed:
        cluster.start_again(broker)
    return len(killed) == 2


def _stop(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    broker = chance.choice(BROKERS)
    if not cluster.stop(broker):
        return False
    time.sleep(seconds)
    cluster.start_again(broker)
    return True


def _rolling_restart(cluster: ChaosCluster, _chance: random.Random, _seconds: float) -> bool:
    """One broker after the other, each when all replicas are in sync, as docs/operations.md says."""
    restarted = 0
    for broker in BROKERS:
        wait_until(lambda: not cluster.ailments(), _REGISTERED_SECONDS)
        if cluster.stop(broker):
            cluster.start_again(broker)
            restarted += 1
    return restarted > 0


def _pause(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    broker = chance.choice(BROKERS)
    if broker in cluster.down or not cluster.brokers.is_running(broker):
        return False
    cluster.brokers.pause(broker)
    time.sleep(seconds)
    if cluster.brokers.is_running(broker):
        cluster.brokers.resume(broker)
    return True


# --- the network ---


def _cut(cluster: ChaosCluster, pairs: Sequence[tuple[int, int]], seconds: float) -> bool:
    for source, target in pairs:
        cluster.network.cut(source, target)
    time.sleep(seconds)
    for source, target in pairs:
        cluster.network.heal(source, target)
    return True


def _both_ways(broker: int, others: Sequence[int]) -> list[tuple[int, int]]:
    return [pair for other in others for pair in ((broker, other), (other, broker))]


def _cut_one_way(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    source, target = chance.sample(BROKERS, 2)
    return _cut(cluster, [(source, target)], seconds)


def _cut_two_brokers(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    first, second = chance.sample(BROKERS, 2)
    return _cut(cluster, _both_ways(first, [second]), seconds)


def _isolate(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    broker = chance.choice(BROKERS)
    return _cut(cluster, _both_ways(broker, [each for each in BROKERS if each != broker]), seconds)


def _isolate_from_all(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    """A broker that clients still reach, and nothing else."""
    broker = chance.choice(BROKERS)
    return _cut(cluster, _both_ways(broker, [TREE, *(each for each in BROKERS if each != broker)]), seconds)


def _cut_off_tree(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, _both_ways(chance.choice(BROKERS), [TREE]), seconds)


def _cut_all_off_tree(cluster: ChaosCluster, _chance: random.Random, seconds: float) -> bool:
    return _cut(cluster, _both_ways(TREE, BROKERS), seconds)


def _break_connections(cluster: ChaosCluster, chance: random.Random, _seconds: float) -> bool:
    cluster.network.break_connections(*chance.sample(BROKERS, 2))
    return True


# --- the metadata tree ---


def _expire_session(cluster: ChaosCluster, chance: random.Random, _seconds: float) -> bool:
    return cluster.expire_session(chance.choice(BROKERS))


def _expire_controller(cluster: ChaosCluster, _chance: random.Random, _seconds: float) -> bool:
    controller = cluster.controller()
    return controller in BROKERS and cluster.expire_session(controller)


def _kill_zookeeper(cluster: ChaosCluster, _chance: random.Random, seconds: float) -> bool:
    zookeeper = cluster.zookeeper
    with cluster.lock:
        if zookeeper is None or not zookeeper.is_running:
            return False
        zookeeper.kill()
    time.sleep(seconds)
    zookeeper.start()
    return True


def _pause_zookeeper(cluster: ChaosCluster, _chance: random.Random, seconds: float) -> bool:
    zookeeper = cluster.zookeeper
    with cluster.lock:
        if zookeeper is None or not zookeeper.is_running:
            return False
        zookeeper.pause()
    time.sleep(seconds)
    if zookeeper.is_running:
        zookeeper.resume()
    return True


# --- disks ---


def _fill_disk(cluster: ChaosCluster, chance: random.Random, seconds: float) -> bool:
    broker = chance.choice(BROKERS)
    if not cluster.fill_disk(broker):
        return False
    time.sleep(seconds)
    cluster.empty_disk(broker)
    return True


FAULTS: Final[dict[str, Happen]] = {
    "kill the leader": _kill_leader,
    "kill a follower": _kill_follower,
    "kill the controller": _kill_controller,
    "kill two of three": _kill_two,
    "shut a broker down": _stop,
    "rolling restart": _rolling_restart,
    "pause a broker": _pause,
    "cut one way": _cut_one_way,
    "cut two brokers": _cut_two_brokers,
    "isolate a broker": _isolate,
    "isolate from all": _isolate_from_all,
    "break connections": _break_connections,
    "cut off the tree": _cut_off_tree,
    "cut all off the tree": _cut_all_off_tree,
    "expire a session": _expire_session,
    "expire the controller": _expire_controller,
    "kill ZooKeeper": _kill_zookeeper,
    "pause ZooKeeper": _pause_zookeeper,
    "full disk": _fill_disk,
}
ZOOKEEPER_ONLY: Final = ("kill ZooKeeper", "pause ZooKeeper")


class Running:
    """The faults of a schedule while they happen, each in a thread."""

    def __init__(self, cluster: ChaosCluster, schedule: Sequence[Fault]) -> None:
        self.happened: list[tuple[Fault, float, float]] = []
        """With the times at which they began and were undone."""
        self.crashed: list[str] = []
        self._cluster = cluster
        began = time.monotonic()
        self._threads = [
            threading.Thread(target=self._run, args=(fault, began), name=fault.name, daemon=True) for fault in schedule
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, fault: Fault, began: float) -> None:
        time.sleep(max(0.0, began + fault.at - time.monotonic()))
        started = time.monotonic()
        try:
            if FAULTS[fault.name](self._cluster, random.Random(fault.choice), fault.seconds):
                self.happened.append((fault, started, time.monotonic()))
        except Exception as error:
            self.crashed.append(f"{fault.name} failed: {error!r}")

    def wait(self) -> list[str]:
        """What went wrong with the faults themselves: a broker that did not start again, for example."""
        deadline = time.monotonic() + 120
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.crashed + [f"{thread.name} did not end" for thread in self._threads if thread.is_alive()]
