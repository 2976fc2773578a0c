"""The health of a cluster in one sentence, from brokers and topics alone: cheap enough for a page. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.aio.admin.types import ClusterDescription, TopicDescription
from tidelog.health.checks import METADATA_CHECKS
from tidelog.health.findings import Finding, Level, counted, worst
from tidelog.health.snapshot import Snapshot


class Summary(NamedTuple):
    """The sentence, and the findings behind it, the most urgent first."""

    sentence: str
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        """The level of the most urgent finding."""
        return worst(self.findings)


def summarize(cluster: ClusterDescription, topics: Mapping[str, TopicDescription]) -> Summary:
    """The health that metadata shows."""
    seen = Snapshot(0, cluster, dict(topics))
    found = sorted((each for check in METADATA_CHECKS for each in check(seen)), key=lambda each: -each.level)
    return Summary(_sentence(seen, found), tuple(found))


def _sentence(seen: Snapshot, findings: list[Finding]) -> str:
    clauses = [each.clause for each in findings if each.level > Level.NOTE]
    if clauses:
        text = ", ".join(clauses[:-1]) + (" and " if len(clauses) > 1 else "") + clauses[-1]
        return text[0].upper() + text[1:] + "."
    running = f"{counted(len(seen.broker_ids), 'broker')} running"
    if not any(topic.partitions for topic in seen.topics.values()):
        return f"{running}; there are no topics yet."
    own, internal = (
        sum(len(topic.partitions) for topic in seen.topics.values() if topic.is_internal is is_internal)
        for is_internal in (False, True)
    )
    led = "the only partition has" if own + internal == 1 else f"all {_partitions(own, internal)} have"
    return f"{running}; {led} a leader and every replica in sync."


def _partitions(own: int, internal: int) -> str:
    """Internal ones apart, as pages count them."""
    if not own:
        return f"{internal:,} internal partitions"
    return f"{counted(own, 'partition')}, plus {internal:,} internal," if internal else f"{own:,} partitions"
