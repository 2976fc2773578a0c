"""APIs of Tidelog's own: served beside Kafka's, and left out of ApiVersions (`tidelog.wire.own_messages`)."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.routes import Route, route_table, versions
from tidelog.wire.own_messages import OwnApiKey


def own_handlers() -> Mapping[int, Route]:
    """A fresh table."""
    return route_table(
        (Route(OwnApiKey.COMPACT_TOPICS, versions(0, 0), "compact_topics", "tidelog.wire.own_messages"),)
    )
