"""Validators that are more than a bound or a choice, and the choices that several settings share."""

from __future__ import annotations

import re
from typing import Final

from tidelog.config.declaration import Check

# fmt: off
_RELEASES: Final = frozenset((
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0",
))
# fmt: on

MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")
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
    release, separator, iteration = value.partition("-IV")
    parts = release.split(".")
    is_known = ".".join(parts[: 3 if parts[0] == "0" else 2]) in _RELEASES
    is_well_formed = iteration.isdigit() if separator else all(part.isdigit() for part in parts)
    return None if is_known and is_well_formed and value.isascii() else f"Version {value} is not a valid version"


def _migration_problem(value: str) -> str | None:
    """Kafka compares these names case-insensitively."""
    return None if value.lower() in MIGRATION_POLICIES else f"String must be one of: {', '.join(MIGRATION_POLICIES)}"


def _roles_problem(value: tuple[str, ...]) -> str | None:
    if "controller" in value:
        return "Controllers are Apache Kafka's: a broker joins them with process.roles=broker"
    return None if set(value) <= {"broker"} else "Roles are broker, or none"


def _protocols_problem(value: tuple[str, ...]) -> str | None:
    return None if "classic" in value else "Disabling the 'classic' protocol is not supported"


def _principals_problem(value: str) -> str | None:
    for each in filter(None, (part.strip() for part in value.split(";"))):
        kind, colon, name = each.partition(":")
        if not (kind and colon and name):
            return f"{each!r} is not a principal, such as User:alice; several are separated by semicolons"
    return None


def _cores_problem(value: str) -> str | None:
    is_count = value.isascii() and value.isdigit() and 1 <= len(value) <= 4 and 1 <= int(value) <= _CORES_MAX
    return None if value == "auto" or is_count else f"{value!r} must be auto or from 1 to {_CORES_MAX}"


_CORES_MAX: Final = 256
CORES: Final = Check(f"1 to {_CORES_MAX}, or `auto`", _cores_problem)

_CLIENT_PROPERTIES: Final = frozenset((
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
))  # fmt: skip


def _match_problem(value: tuple[str, ...]) -> str | None:
    for each in value:
        name, equals, pattern = each.partition("=")
        if not equals or name.strip() not in _CLIENT_PROPERTIES or not pattern.strip() or "=" in pattern:
            return f"Illegal client matching pattern: {each}"
    return None


_DELAY: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)?")
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAYS_MAX: Final = 100
DELAY_MS_MAX: Final = 366 * 86_400_000
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_DURATION_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)


def delay_ms(text: str) -> int:
    """Milliseconds of `500ms`, `10s`, `5m`, `2h` or `1d`; raises ValueError."""
    found = _DELAY.fullmatch(text.strip())
    value = -1 if found is None else int(found[1]) * _UNITS_MS[found[2] or ""]
    if not 0 <= value <= DELAY_MS_MAX:
        raise ValueError(f"{text!r} is not a delay of at most 366 days, such as 500ms, 10s, 5m, 2h or 1d")
    return value


def _delays_problem(value: tuple[str, ...]) -> str | None:
    if len(value) > _DELAYS_MAX:
        return f"{len(value)} delays, the most is {_DELAYS_MAX}"
    try:
        for each in value:
            delay_ms(each)
    except ValueError as error:
        return str(error)
    return None


def reset_age_ms(text: str) -> int | None:
    """The milliseconds of `by_duration:PT1H`; None for `earliest` and `latest`. Raises ValueError for anything else."""
    if text.lower() in ("earliest", "latest"):
        return None
    kind, _, duration = text.partition(":")
    found = _DURATION.fullmatch(duration.upper())
    if kind.lower() != "by_duration" or found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is not earliest, latest or by_duration:PnDTnHnMn.nS")
    return round(sum(float(part or 0) * unit for part, unit in zip(found.groups(), _DURATION_UNITS_MS, strict=True)))


def _reset_problem(value: str) -> str | None:
    try:
        reset_age_ms(value)
    except ValueError as error:
        return str(error)
    return None


RETRY_DELAYS: Final = Check("delays such as `10s,1m,10m`", _delays_problem)
SHARE_RESET: Final = Check("`earliest`, `latest`, or `by_duration:` and a duration such as `PT1H`", _reset_problem)
CLIENT_MATCH: Final = Check("`name=pattern` pairs", _match_problem)
MIGRATION_POLICY: Final = Check(", ".join(MIGRATION_POLICIES), _migration_problem)
ROLES: Final = Check("broker, or empty", _roles_problem)
REBALANCE_PROTOCOLS: Final = Check("classic, consumer, streams", _protocols_problem)
GZIP_LEVEL: Final = Check("1 to 9, or -1", _gzip_problem)
PRINCIPALS: Final = Check("principals, such as `User:alice;User:bob`", _principals_problem)
THROTTLED_REPLICAS: Final = Check("`*`, or `partition:broker` pairs", _throttled_problem)
METADATA_VERSION: Final = Check("a Kafka version, such as 3.9 or 3.9-IV0", _version_problem)
