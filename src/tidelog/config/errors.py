"""The errors of configuration, raised by parsing, validation and dynamic updates alike."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting, or a combination of settings, that cannot be used. The message names settings and values.

    `setting` is the name of the offending setting where there is exactly one, else None.
    """

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


class InvalidValueError(ConfigError):
    """One setting's value is malformed or out of bounds."""


class UnknownSettingError(ConfigError):
    """No setting has this name."""


def invalid_value(name: str, value: object, problem: str) -> InvalidValueError:
    """The error for one setting's value, in the words Kafka's operators know."""
    shown = "null" if value is None else value
    return InvalidValueError(f"Invalid value {shown} for configuration {name}: {problem}", setting=name)
