"""Which names a topic may have."""

from typing import Final

from tidelog.wire.errors import ApiError, ErrorCode

TOPIC_NAME_LENGTH_MAX: Final = 249
"""So that `topic-partition`, with the suffixes files and directories get, stays within the 255 bytes of a file name."""

_LEGAL: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless `name` may be the name of a topic."""
    problem = _problem(name)
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def _problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"it cannot be {name!r}"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"it has {len(name)} characters, more than {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL.issuperset(name):
        return f"{name!r} has characters other than ASCII letters and digits, '.', '_' and '-'"
    return None
