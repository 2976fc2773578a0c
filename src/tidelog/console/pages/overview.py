"""The overview: health in one sentence, brokers, throughput."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import LogDirectory
from tidelog.client.errors import ClientError
from tidelog.client.types import BrokerNode
from tidelog.console.cluster_view import Snapshot
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask
from tidelog.health import summarize
from tidelog.wire.errors import ApiError


class Counts(NamedTuple):
    """How many there are, of internal topics apart."""

    own: int
    internal: int


class BrokerRow(NamedTuple):
    """A broker in the table; sizes are None where the broker does not say."""

    node: BrokerNode
    is_controller: bool
    leaders: Counts
    replicas: Counts
    usable_bytes: int | None
    total_bytes: int | None
    failed_directories: int


async def show(ask: Ask) -> Response:
    """The overview."""
    snapshot, groups, directories = await asyncio.gather(
        ask.view.snapshot.get(), _count_groups(ask), directories_of(ask)
    )
    topics = snapshot.topics.values()
    own = [topic for topic in topics if not topic.is_internal]
    throughput = ask.view.sampler.throughput
    busiest = sorted(((throughput.rate_of(topic.name) or 0.0, topic.name) for topic in own), reverse=True)[:5]
    return ask.render(
        "overview.html",
        area="overview",
        health=summarize(snapshot.cluster, snapshot.topics),
        cluster=snapshot.cluster,
        brokers=broker_rows(snapshot, directories),
        topic_counts=_counts((topic.is_internal, 1) for topic in topics),
        partition_counts=_counts((topic.is_internal, len(topic.partitions)) for topic in topics),
        group_count=groups,
        rate=throughput.cluster[-1].value if throughput.cluster else None,
        series=throughput.cluster,
        busiest=[(name, rate, throughput.of_topic(name)) for rate, name in busiest if rate > 0],
        problem=ask.view.sampler.problem,
    )


async def show_checks(ask: Ask) -> Response:
    """All checks of `tidelog doctor` but those that have to wait."""
    findings = await ask.view.findings.get()
    return ask.render("checks.html", area="overview", findings=findings)


async def _count_groups(ask: Ask) -> int | None:
    try:
        return len(await ask.view.groups.get())
    except (ClientError, ApiError):
        return None


async def directories_of(ask: Ask) -> dict[int, list[LogDirectory]]:
    """The directories of the brokers; none if this user may not see them."""
    try:
        return await ask.view.directories()
    except (ClientError, ApiError):
        return {}


def _counts(counted: Iterable[tuple[bool, int]]) -> Counts:
    totals = {False: 0, True: 0}
    for is_internal, count in counted:
        totals[is_internal] += count
    return Counts(totals[False], totals[True])


def broker_rows(snapshot: Snapshot, directories: dict[int, list[LogDirectory]]) -> list[BrokerRow]:
    """The brokers of the cluster, with what each has."""
    leaders: Counter[tuple[int, bool]] = Counter()
    replicas: Counter[tuple[int, bool]] = Counter()
    for topic in snapshot.topics.values():
        for each in topic.partitions:
            leaders[each.leader_id, topic.is_internal] += 1
            replicas.update((broker, topic.is_internal) for broker in each.replicas)
    rows = []
    for node in snapshot.cluster.nodes:
        known = [each for each in directories.get(node.node_id, ()) if each.total_bytes >= 0]
        # Directories of one disk all report that disk: count each size once.
        disks = {(each.total_bytes, each.usable_bytes) for each in known}
        rows.append(
            BrokerRow(
                node,
                node.node_id == snapshot.cluster.controller_id,
                Counts(leaders[node.node_id, False], leaders[node.node_id, True]),
                Counts(replicas[node.node_id, False], replicas[node.node_id, True]),
                sum(usable for _, usable in disks) if disks else None,
                sum(total for total, _ in disks) if disks else None,
                sum(each.error_code != 0 for each in directories.get(node.node_id, ())),
            )
        )
    return rows


AREA = Area(pages={"/": show, "/checks": show_checks})
