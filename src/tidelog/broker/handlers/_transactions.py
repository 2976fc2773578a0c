"""What the handlers of transactional requests share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey


def error_for_version(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """The code in a response of `version`: before `fenced_since`, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def code_of(outcome: Any) -> ErrorCode:
    """The code of an answer that is an ErrorCode or an ApiError."""
    return outcome.code if isinstance(outcome, ApiError) else cast("ErrorCode", outcome)


def partitions_by_topic(codes: Mapping[PartitionKey, ErrorCode]) -> dict[str, list[tuple[int, ErrorCode]]]:
    """Codes of partitions under their topics."""
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append((index, code))
    return topics


def partitions_of(topics: Iterable[Any]) -> list[PartitionKey]:
    """Every partition of `topics`, whose fields are `name` and `partitions`, once."""
    return list(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))
