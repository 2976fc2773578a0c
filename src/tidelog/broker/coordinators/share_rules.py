"""The settings of a share group: what it has for itself, else the broker's defaults.

A value that cannot be read any more must not stop a group: the default holds instead, and the log says so.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from tidelog.broker.coordinators.share_partitions import ShareGroupRules
from tidelog.config import BrokerConfig
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.replication.partition import READ_COMMITTED
from tidelog.sharing.partition import ShareLimits

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

T = TypeVar("T")
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": READ_COMMITTED}
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def rules_of(config: BrokerConfig, overrides: Mapping[str, str]) -> ShareGroupRules:
    """The rules of a group with these settings of its own."""

    def read(name: str, parse: Callable[[str], T], default: T) -> T:
        text = overrides.get(name)
        if text is None:
            return default
        try:
            return parse(text)
        except (ValueError, KeyError) as error:
            logger.error("the setting %s=%s of a share group is ignored: %s", name, text, error)
            return default

    return ShareGroupRules(
        limits=ShareLimits(
            lock_ms=read("share.record.lock.duration.ms", int, config.group_share_record_lock_duration_ms),
            delivery_count_limit=read("share.delivery.count.limit", int, config.group_share_delivery_count_limit),
            records_in_flight_max=read(
                "share.partition.max.record.locks", int, config.group_share_partition_max_record_locks
            ),
        ),
        isolation_level=read("share.isolation.level", lambda text: _ISOLATION[text.lower()], 0),
        auto_offset_reset=read("share.auto.offset.reset", parse_reset, "latest"),
        sessions_max=config.group_share_max_share_sessions,
    )


def parse_reset(text: str) -> str:
    """`earliest` or `latest`, or the milliseconds of `by_duration:PT1H`; raises ValueError."""
    lowered = text.lower()
    if lowered in ("earliest", "latest"):
        return lowered
    kind, _, duration = text.partition(":")
    found = _DURATION.fullmatch(duration.upper())
    if kind.lower() != "by_duration" or found is None or not any(found.groupdict().values()):
        raise ValueError(f"{text} is not earliest, latest or by_duration:PnDTnHnMnS")
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    seconds = ((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]
    return str(int(seconds * 1000))
