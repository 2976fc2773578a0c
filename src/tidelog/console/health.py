"""The health of a cluster in one sentence, with findings that say what is wrong and what to do. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.aio.admin.types import ClusterDescription, TopicDescription

NAMES_MAX: Final = 5


class Level(Enum):
    """How urgent a finding is."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and what to do about it."""

    level: Level
    text: str
    advice: str = ""
    topics: tuple[str, ...] = ()


class Health(NamedTuple):
    """The sentence, and the findings behind it."""

    level: Level
    sentence: str
    findings: tuple[Finding, ...]


def assess(cluster: ClusterDescription, topics: Iterable[TopicDescription]) -> Health:
    """The health that metadata shows."""
    leaderless: dict[str, int] = {}
    behind: dict[str, int] = {}
    elsewhere = total = 0
    alive = {node.node_id for node in cluster.nodes}
    missing: set[int] = set()
    for topic in topics:
        for each in topic.partitions:
            total += 1
            missing.update(set(each.replicas) - alive)
            if each.leader_id < 0:
                leaderless[topic.name] = leaderless.get(topic.name, 0) + 1
            elif len(each.in_sync) < len(each.replicas):
                behind[topic.name] = behind.get(topic.name, 0) + 1
            elif each.replicas and each.leader_id != each.replicas[0]:
                elsewhere += 1
    findings = tuple(_findings(cluster, leaderless, behind, sorted(missing), elsewhere))
    level = max((each.level for each in findings), key=list(Level).index, default=Level.GOOD)
    return Health(level, _sentence(len(cluster.nodes), total, findings), findings)


def _findings(
    cluster: ClusterDescription,
    leaderless: dict[str, int],
    behind: dict[str, int],
    missing: list[int],
    elsewhere: int,
) -> Iterable[Finding]:
    if cluster.controller_id < 0:
        yield Finding(
            Level.BAD,
            "the cluster has no controller",
            "Leaders are not elected and topics cannot be changed until a broker is elected controller.",
        )
    if leaderless:
        count = sum(leaderless.values())
        yield Finding(
            Level.BAD,
            f"{_partitions(count)} {'has' if count == 1 else 'have'} no leader",
            "They can be neither read nor written. Start the brokers that hold their in-sync replicas.",
            tuple(leaderless)[:NAMES_MAX],
        )
    if missing:
        names = ", ".join(str(each) for each in missing)
        is_one = len(missing) == 1
        yield Finding(
            Level.WARNING,
            f"{'broker' if is_one else 'brokers'} {names} {'is' if is_one else 'are'} offline",
            "Start it again, or reassign its replicas." if is_one else "Start them again, or reassign their replicas.",
        )
    if behind:
        count = sum(behind.values())
        yield Finding(
            Level.WARNING,
            f"{_partitions(count)} {'is' if count == 1 else 'are'} under-replicated",
            "Some replicas are not in sync. They catch up by themselves once their brokers run and keep up.",
            tuple(behind)[:NAMES_MAX],
        )
    if elsewhere:
        yield Finding(
            Level.GOOD,
            f"{_partitions(elsewhere)} {'is' if elsewhere == 1 else 'are'} not led by the preferred replica",
            "`tidelog elect` moves leaders back to the preferred replicas.",
        )


def _sentence(brokers: int, partitions: int, findings: tuple[Finding, ...]) -> str:
    serious = [each.text for each in findings if each.level is not Level.GOOD]
    if serious:
        text = ", ".join(serious[:-1]) + (" and " if len(serious) > 1 else "") + serious[-1]
        return text[0].upper() + text[1:] + "."
    if not partitions:
        return f"{_count(brokers, 'broker')} running; there are no topics yet."
    leads = "the only partition has" if partitions == 1 else f"all {partitions:,} partitions have"
    return f"{_count(brokers, 'broker')} running; {leads} a leader and every replica in sync."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _partitions(number: int) -> str:
    return _count(number, "partition")
