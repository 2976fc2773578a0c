"""The pages, one module for each area. `PAGES` is the table from which the routes are made."""

from collections.abc import Sequence
from typing import Final

from tidelog.console.pages import (
    access,
    brokers,
    delayed,
    groups,
    live,
    messages,
    overview,
    pipelines,
    producing,
    quotas,
    reassignments,
    schemas,
    shares,
    topics,
    transactions,
)
from tidelog.console.pages.routing import Area

PAGES: Final[Sequence[Area]] = (
    overview.AREA,
    brokers.AREA,
    topics.AREA,
    messages.AREA,
    producing.AREA,
    live.AREA,
    delayed.AREA,
    groups.AREA,
    schemas.AREA,
    shares.AREA,
    transactions.AREA,
    pipelines.AREA,
    reassignments.AREA,
    access.AREA,
    quotas.AREA,
)
