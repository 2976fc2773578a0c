"""The options of the connector as text: looked up without regard to case, converted, refused with a sentence.

Spark hands options over with lower-cased names; the official connector's documentation and our messages write them as
people do (`startingOffsets`). `source` and `sink` read theirs through this class. Pure, but for the file that the
option `commandConfig` names.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tidelog.spark.command_config import COMMAND_CONFIG, read_command_config
from tidelog.spark.sentences import ForeseenError

_KAFKA_PREFIX: Final = "kafka."
_FLAGS: Final = {"true": True, "false": False}
_NUMBER: Final = re.compile("[+-]?[0-9]{1,99}")
_SECURE_PREFIXES: Final = ("ssl.", "sasl.")
_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})\s*([a-z]*)")


class OptionError(ForeseenError, ValueError):
    """An invalid option; the text names the option, its value and what to set instead."""


class Options:
    """The options of one source or sink."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        path = self.text(COMMAND_CONFIG)
        if path is not None:
            self._given = {**_from_file(path), **self._given}

    def text(self, name: str) -> str | None:
        """The value of `name`, without blanks around it; None if it was not given or is empty."""
        value = self._given.get(name.lower())
        return (value.strip() or None) if value is not None else None

    def required(self, name: str, meaning: str) -> str:
        """The value of an option that must be there; `meaning` says what it is for."""
        value = self.text(name)
        if value is None:
            raise OptionError(f"option {name!r} is missing: {meaning}")
        return value

    def number(self, name: str, *, at_least: int = 1) -> int | None:
        """A whole number of at least `at_least`; None if it was not given."""
        value = self.text(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise OptionError(f"option {name!r} is {value!r}: it must be a whole number")
        number = int(value)
        if number < at_least:
            raise OptionError(f"option {name!r} is {number}: it must be at least {at_least}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """`true` or `false`."""
        value = self.text(name)
        if value is None:
            return default
        flag = _FLAGS.get(value.lower())
        if flag is None:
            raise OptionError(f"option {name!r} is {value!r}: it must be true or false")
        return flag

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """One of `choices`, in any case."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in choices:
            raise OptionError(f"option {name!r} is {value!r}: it must be one of {', '.join(sorted(choices))}")
        return value.lower()

    def kafka_settings(self, refused: Mapping[str, str]) -> dict[str, str]:
        """The settings given as `kafka.<name>`, without the prefix. `refused` names forbidden ones, and why."""
        settings = {
            name.removeprefix(_KAFKA_PREFIX): value.strip()
            for name, value in self._given.items()
            if name.startswith(_KAFKA_PREFIX)
        }
        for name, why in refused.items():
            if name in settings:
                raise OptionError(f"option 'kafka.{name}' cannot be set: {why}")
        return settings

    def bootstrap_servers(self) -> str:
        """Where the cluster is."""
        return self.required("kafka.bootstrap.servers", "a list of host:port,host:port of brokers")

    def exactly_one_of(self, names: Iterable[str]) -> tuple[str, str]:
        """The one of `names` that was given, and its value."""
        given = [(name, value) for name in names if (value := self.text(name)) is not None]
        if len(given) == 1:
            return given[0]
        wanted = ", ".join(names)
        if not given:
            raise OptionError(f"one of the options {wanted} must be set")
        raise OptionError(f"only one of the options {wanted} may be set, not {' and '.join(name for name, _ in given)}")

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Reject options that do not apply here."""
        for name in names:
            if self.text(name) is not None:
                raise OptionError(f"option {name!r} cannot be set here: {why}")


def _from_file(path: str) -> dict[str, str]:
    try:
        return {f"{_KAFKA_PREFIX}{name.lower()}": value for name, value in read_command_config(path).items()}
    except ValueError as error:
        raise OptionError(str(error)) from None


def parse_duration_ms(option: str, text: str) -> int:
    """The milliseconds of `text`: `15m`, `250ms`, `2h`; a bare number is milliseconds. Raises OptionError."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(f"option {option!r} is {text!r}: it must be a time such as 500ms, 30s, 15m or 2h")
    return int(int(found[1]) * _UNITS_MS[found[2]])


def security_settings(kafka_settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of encryption and authentication. One that the client does not have is rejected, never ignored."""
    from tidelog.client.security_settings import SecuritySettings

    known = SecuritySettings.settings
    for name in kafka_settings:
        if name.startswith(_SECURE_PREFIXES) and name not in known:
            raise OptionError(f"option 'kafka.{name}' is not supported; supported are {', '.join(sorted(known))}")
    return {name: value for name, value in kafka_settings.items() if name in known}
