"""Loggers as resources: DescribeConfigs lists their levels, IncrementalAlterConfigs sets them (KIP-412).

The names are Python's, dotted like Kafka's; the levels go by Kafka's words. A level lasts until the broker stops.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.metadata.configs import AlterOperation
from tidelog.wire.errors import ApiError, ErrorCode

ROOT: Final = "root"
_OURS: Final = "tidelog"
_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """The level in force of the root logger and of every logger of ours, by name."""
    names = [name for name in logging.root.manager.loggerDict if name == _OURS or name.startswith(f"{_OURS}.")]
    return {name: _word(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(names))}


def check_logger_change(operation: int, name: str, value: str | None) -> None:
    """Raise ApiError unless the level of logger `name` may be changed so."""
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        word = AlterOperation(operation).name if operation in AlterOperation.__members__.values() else operation
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource")
    if name not in logger_levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterOperation.DELETE:
        if name == ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    elif value not in _LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LEVELS)}",
        )


def change_logger(operation: int, name: str, value: str | None) -> None:
    """Set a checked level, or let the logger inherit its parent's again."""
    level = logging.NOTSET if operation == AlterOperation.DELETE or value is None else _LEVELS[value]
    _logger(name).setLevel(level)


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _word(level: int) -> str:
    """Kafka's word for a level; one that lies between two words is called by the finer one."""
    return next((word for word, number in reversed(_LEVELS.items()) if level >= number), "TRACE")
