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

from tidelog.testing.simulation import failovers, network_faults, process_faults
from tidelog.testing.simulation.invariants import Step
from tidelog.testing.simulation.process_faults import Strike
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation

_KINDS_PER_SEED: Final = (3, 8)
_STEP_SHARE: Final = 0.35
_FAILOVERS_PER_SEED: Final = 2
_FAILOVER_SHARE: Final = 0.35


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
    scenarios = chance.sample(sorted(FAILOVERS), _FAILOVERS_PER_SEED)
    schedule = []
    for _ in range(count):
        draw = chance.random()
        at = chance.uniform(0.2, seconds)
        if draw < _FAILOVER_SHARE:
            # They take some seconds until they strike.
            name, at = chance.choice(scenarios), at / 2
        else:
            name = chance.choice(steps if draw < _FAILOVER_SHARE + _STEP_SHARE else timed)
        schedule.append(Fault(at, name, chance.uniform(0.2, 4.0), chance.randrange(1 << 30)))
    return sorted(schedule)


def begin(cluster: Simulation, fault: Fault, on_fired: Callable[[str], None]) -> None:
    """Make a fault happen now, or at the next step that it waits for; `on_fired` gets its name when it has."""
    chance = random.Random(fault.choice)

    def strike(broker: BrokerProcess, strikes: Sequence[Strike]) -> bool:
        return chance.choice(strikes)(cluster, broker, chance, fault.seconds)

    aimed = STEPS.get(fault.name)
    if aimed is None:
        brokers = [each for each in cluster.brokers if each.is_serving and not each.is_paused]
        if brokers and strike(chance.choice(brokers), ({**FAULTS, **FAILOVERS}[fault.name],)):
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
    "pause a client": process_faults.pause_client,
    "kill a client": process_faults.replace_client,
    "damaged indexes": process_faults.damage_indexes,
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
    "cut brokers off each other": network_faults.cut_brokers,
    "isolate a broker": network_faults.isolate,
    "break connections": network_faults.break_connections,
    "lose replies": network_faults.lose_replies,
    "slow network": network_faults.slow_network,
    "reordering between hosts": network_faults.reorder_hosts,
}
"""Those that happen at a time."""

FAILOVERS: Final[dict[str, Strike]] = {
    "kill all brokers": failovers.kill_all,
    "kill all brokers behind a follower": failovers.kill_all_behind_a_follower,
    "leader gone behind a follower": failovers.lose_leader_behind_a_follower,
    "leadership to and fro": failovers.pass_leadership_to_and_fro,
    "cut off from all but clients": failovers.cut_off_from_all_but_clients,
    "power failure everywhere": failovers.lose_all_power,
    "no leader hears of a follower": failovers.lose_answer_when_a_follower_is_back,
    "late answer about the ISR": failovers.delay_answer_about_the_isr,
    "preferred leader out of sync": failovers.prefer_a_lagging_leader,
    "controller lost with a move half-done": failovers.lose_controller_in_a_move,
    "controller lost with a deletion half-done": failovers.lose_controller_in_a_deletion,
}
"""Several that belong together. They begin at a time, too."""

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
    "leader unaware of its grown ISR": Aimed(Step.ISR_GROWN, (failovers.lose_answer_about_grown_isr,)),
    "client killed in a rebalance": Aimed(Step.GROUP_REBALANCES, (process_faults.replace_client,)),
    "client paused in a rebalance": Aimed(Step.GROUP_REBALANCES, (process_faults.pause_client,)),
    "client paused as a transaction is prepared": Aimed(Step.TRANSACTION_PREPARED, (process_faults.pause_client,)),
    "follower gone as it truncates": Aimed(Step.TRUNCATED, _GONE),
    "coordinator gone with a prepared transaction": Aimed(Step.TRANSACTION_PREPARED, _AWAY),
    "coordinator gone in a rebalance": Aimed(Step.GROUP_REBALANCES, _AWAY),
}
"""Those that happen at a step."""
