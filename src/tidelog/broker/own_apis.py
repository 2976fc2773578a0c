"""APIs of Tidelog's own: served beside Kafka's, and left out of ApiVersions (`tidelog.wire.own_messages`)."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.routes import Route, route_table, versions
from tidelog.wire.own_messages import OwnApiKey


def own_handlers() -> Mapping[int, Route]:
    """A fresh table."""
    messages = "tidelog.wire.own_messages"
    return route_table(
        (
            Route(OwnApiKey.COMPACT_TOPICS, versions(0, 0), "compact_topics", messages),
            Route(OwnApiKey.LIST_DELAYED_RECORDS, versions(0, 0), "delayed_records:list_records", messages),
            Route(OwnApiKey.ALTER_DELAYED_RECORDS, versions(0, 0), "delayed_records:alter_records", messages),
        )
    )
