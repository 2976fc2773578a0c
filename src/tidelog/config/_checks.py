"""Validators that are more than a bound or a choice, and the choices that several settings share."""

from __future__ import annotations

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


CLIENT_MATCH: Final = Check("`name=pattern` pairs", _match_problem)
MIGRATION_POLICY: Final = Check(", ".join(MIGRATION_POLICIES), _migration_problem)
ROLES: Final = Check("broker, or empty", _roles_problem)
REBALANCE_PROTOCOLS: Final = Check("classic, consumer", _protocols_problem)
GZIP_LEVEL: Final = Check("1 to 9, or -1", _gzip_problem)
PRINCIPALS: Final = Check("principals, such as `User:alice;User:bob`", _principals_problem)
THROTTLED_REPLICAS: Final = Check("`*`, or `partition:broker` pairs", _throttled_problem)
METADATA_VERSION: Final = Check("a Kafka version, such as 3.9 or 3.9-IV0", _version_problem)
