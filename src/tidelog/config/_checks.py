"""Validators that are more than a bound or a choice, and the choices that several settings share."""

from __future__ import annotations

from typing import Final

from tidelog.config._setting import Check

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _gzip_problem(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"


def _throttled_problem(value: tuple[str, ...]) -> str | None:
    if value == ("*",) or all(_is_pair(item) for item in value):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _is_pair(item: str) -> bool:
    partition, separator, broker = item.partition(":")
    return bool(separator) and all(part.isascii() and part.isdigit() for part in (partition, broker))


def _version_problem(value: str) -> str | None:
    parts = value.split("-")[0].split(".")
    is_version = len(parts) >= 2 and all(part.isascii() and part.isdigit() for part in parts)
    return None if is_version else f"Version {value} is not a valid version"


def _non_empty_problem(value: str | None) -> str | None:
    return "String must be non-empty" if value is not None and not value else None


GZIP_LEVEL: Final = Check("1 to 9, or -1", _gzip_problem)
THROTTLED_REPLICAS: Final = Check("`*`, or `partition:broker` pairs", _throttled_problem)
METADATA_VERSION: Final = Check("a Kafka version, such as 3.9 or 3.9-IV0", _version_problem)
NON_EMPTY: Final = Check("not empty", _non_empty_problem)
