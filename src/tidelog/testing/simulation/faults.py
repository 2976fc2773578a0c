"""What can go wrong in a simulation: a table of faults, and schedules of them drawn from the seed.

A fault happens at a time, to any broker that serves, or at a step of the protocol, to the broker that has just taken
it: the controller that has a write under way, the coordinator that has prepared a transaction, a leader whose ISR has
just grown. Rare windows are hit that way in every run.

Every seed draws a few of the faults and uses only those ("swarm testing"): a run that has everything in it has little
of anything. A schedule is made before the simulation runs, so that a seed that fails can be tried again with fewer
faults. A fault that does not apply when its time comes (nothing to kill, nothing to cut) does not count as fired.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidelog.testing.simulation import network_faults, process_faults
from tidelog.testing.simulation.invariants import Step
from tidelog.testing.simulation.process_faults import Strike
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation

_KINDS_PER_SEED: Final = (3, 8)
_STEP_SHARE: Final = 0.5


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
    timed = chance.sample(sorted(FAULTS), chance.randint(*_KINDS_PER_SEED))
    steps = chance.sample(sorted(STEPS), chance.randint(1, len(STEPS)))
    return sorted(
        Fault(
            chance.uniform(0.2, seconds),
            chance.choice(steps if chance.random() < _STEP_SHARE else timed),
            chance.uniform(0.2, 4.0),
            chance.randrange(1 << 30),
        )
        for _ in range(count)
    )


def begin(cluster: Simulation, fault: Fault, on_fired: Callable[[str], None]) -> None:
    """Make a fault happen now, or at the next step that it waits for; `on_fired` gets its name when it has."""
    chance = random.Random(fault.choice)

    def strike(broker: BrokerProcess, strikes: Sequence[Strike]) -> bool:
        return chance.choice(strikes)(cluster, broker, chance, fault.seconds)

    aimed = STEPS.get(fault.name)
    if aimed is None:
        brokers = [each for each in cluster.brokers if each.is_serving and not each.is_paused]
        if brokers and strike(chance.choice(brokers), (FAULTS[fault.name],)):
            on_fired(fault.name)
        return

    def on_step(broker: BrokerProcess) -> bool:
        has_struck = broker.is_serving and not broker.is_paused and strike(broker, aimed.strikes)
        if has_struck:
            cluster.world.tell("simulator", f"that was: {fault.name}")
            on_fired(fault.name)
        return has_struck

    cluster.arm(aimed.step, on_step)


FAULTS: Final[dict[str, Strike]] = {
    "kill a broker": process_faults.kill,
    "shut a broker down": process_faults.shut_down,
    "rolling restart": process_faults.restart_all_in_turn,
    "pause a broker": process_faults.pause,
    "power failure": process_faults.lose_power,
    "cut off the metadata tree": process_faults.cut_off_tree,
    "expire a session": process_faults.expire_session,
    "late watches": process_faults.delay_watches,
    "clock jump": process_faults.jump_clock,
    "clock drift": process_faults.drift_clock,
    "full disk": process_faults.fill_disk,
    "failing disk": process_faults.break_disk,
    "slow disk": process_faults.slow_disk,
    "cut one way": network_faults.cut_one_way,
    "cut both ways": network_faults.cut_both_ways,
    "isolate a broker": network_faults.isolate,
    "break connections": network_faults.break_connections,
    "lose replies": network_faults.lose_replies,
    "slow network": network_faults.slow_network,
    "reordering between hosts": network_faults.reorder_hosts,
}
"""Those that happen at a time."""

_GONE: Final = (process_faults.kill, process_faults.kill, process_faults.lose_power)
_AWAY: Final = (
    *_GONE,
    process_faults.pause,
    process_faults.depose,
    process_faults.expire_session,
    network_faults.isolate,
)


class Aimed(NamedTuple):
    """A step, and what may happen to the broker that takes it."""

    step: Step
    strikes: Sequence[Strike]


STEPS: Final[dict[str, Aimed]] = {
    "controller replaced while it writes": Aimed(
        Step.CONTROLLER_WRITES, (process_faults.depose, process_faults.depose, process_faults.expire_session)
    ),
    "controller gone while it writes": Aimed(Step.CONTROLLER_WRITES, (*_GONE, process_faults.pause)),
    "new leader gone": Aimed(Step.LEADER_ELECTED, _AWAY),
    "leader gone before a commit": Aimed(Step.UNCOMMITTED, _AWAY),
    "leader gone as a follower joins the ISR": Aimed(Step.ISR_GREW, _AWAY),
    "leader gone as the ISR shrinks": Aimed(Step.ISR_SHRANK, _AWAY),
    "follower gone as it truncates": Aimed(Step.TRUNCATED, _GONE),
    "coordinator gone with a prepared transaction": Aimed(Step.TRANSACTION_PREPARED, _AWAY),
    "coordinator gone in a rebalance": Aimed(Step.GROUP_REBALANCES, _AWAY),
}
"""Those that happen at a step."""
