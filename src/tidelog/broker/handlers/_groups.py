"""What the handlers of group requests share."""

from __future__ import annotations

from tidelog.wire.errors import ApiError, ErrorCode


def check_group_id(group_id: str) -> None:
    """A group that Kafka coordinates has a name; only offsets may be kept under the empty one, as long ago."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group id must not be empty")
