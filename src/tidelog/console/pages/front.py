"""The front page of a console of several clusters: each with its health, as far as the browser may see it."""

import asyncio
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.console.cluster_view import ClusterView
from tidelog.console.clusters import Cluster
from tidelog.console.errors import explain
from tidelog.console.settings import Login
from tidelog.console.web import Ask
from tidelog.health import Level, summarize

TIMEOUT_S: Final = 5.0
"""How long the page waits for a cluster: one that is away must not hide the others."""


class ClusterRow(NamedTuple):
    """A cluster in the list; counts are None where they are not known."""

    cluster: Cluster
    level: Level | None
    """None for a cluster that needs a login."""
    sentence: str
    brokers: int | None = None
    topics: int | None = None


async def show_clusters(ask: Ask) -> Response:
    """All clusters of the console: of those that the browser is not logged in to, the name."""
    if ask.cluster.login is Login.TOKEN and ask.entry is None:
        return ask.go("/login")
    rows = await asyncio.gather(*(_row(ask, each) for each in ask.console.clusters))
    return ask.render("clusters.html", area="", rows=rows)


async def _row(ask: Ask, cluster: Cluster) -> ClusterRow:
    entry = ask.session.entries.get(cluster.name)
    if entry is None:
        return ClusterRow(cluster, None, "Log in to see it.")
    try:
        return await asyncio.wait_for(_summary(cluster, entry.view), TIMEOUT_S)
    except TimeoutError:
        return ClusterRow(cluster, Level.BAD, f"It did not answer within {TIMEOUT_S:.0f} seconds.")
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        return ClusterRow(cluster, Level.BAD, f"{explained.title}. {explained.text}")


async def _summary(cluster: Cluster, view: ClusterView) -> ClusterRow:
    snapshot = await view.snapshot.get()
    health = summarize(snapshot.cluster, snapshot.topics)
    own = sum(not topic.is_internal for topic in snapshot.topics.values())
    return ClusterRow(cluster, health.level, health.sentence, len(snapshot.cluster.nodes), own)
