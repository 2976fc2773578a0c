"""Names of topics, groups and profiles: what the shell completes, and what a mistyped one was meant for.

Completion must never keep a prompt waiting or print an error: without an answer within a moment there is no name.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from tidelog.cli import _profiles
from tidelog.cli._clients import Connection
from tidelog.cli.errors import CommandError, explain
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.config.names import nearest_name
from tidelog.wire.errors import ApiError, ErrorCode

_TIMEOUT_MS: Final = 1500
_IMPATIENT: Final = {
    "bootstrap.timeout.ms": 800,
    "request.timeout.ms": _TIMEOUT_MS,
    "default.api.timeout.ms": _TIMEOUT_MS,
    "socket.connection.setup.timeout.ms": 800,
}


class UnknownName(CommandError):  # noqa: N818 - named as what it reports
    """A topic that a client waited for in vain."""


def _topics(admin: Admin) -> Iterable[str]:
    return (each.name for each in admin.list_topics(include_internal=True))


def _groups(admin: Admin) -> Iterable[str]:
    return (each.group_id for each in admin.list_groups())


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics that begin so. Internal ones only once an underscore is typed."""
    return _completed(ctx, incomplete, _topics)


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The groups that begin so."""
    return _completed(ctx, incomplete, _groups)


def profile_names(incomplete: str) -> list[str]:
    """The profiles that begin so."""
    return [name for name in _profiles.names() if name.startswith(incomplete)]


def _completed(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    given = ctx.params
    file = given.get("command_config")
    connection = Connection(given.get("bootstrap_server"), None if file is None else Path(file), given.get("profile"))
    already = {each for value in given.values() if isinstance(value, list | tuple) for each in value}
    # A shell shows whatever is printed: warnings about settings as well.
    with open("/dev/null", "w") as nowhere:
        stderr, sys.stderr = sys.stderr, nowhere
        try:
            with Admin(connection.settings(AdminSettings) | _IMPATIENT) as admin:
                found = sorted(names(admin))
        except Exception:  # noqa: BLE001 - there is no place for an error while a word is typed
            return []
        finally:
            sys.stderr = stderr
    is_hidden = not incomplete.startswith("_")
    return [
        each
        for each in found
        if each.startswith(incomplete) and each not in already and not (is_hidden and each.startswith("__"))
    ]


COMPLETERS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "topic": topic_names,
    "topics": topic_names,
    "retry_topic": topic_names,
    "group": group_names,
    "groups": group_names,
    "profile": profile_names,
}
"""What completes the parameters of verbs, by their names. A parameter that completes by itself is left alone."""

_LISTS: Final[Mapping[str, Callable[[Admin], Iterable[str]]]] = {"topic": _topics, "group": _groups}
_UNKNOWN: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topic",
    ErrorCode.GROUP_ID_NOT_FOUND: "group",
}


def with_advice(error: Exception, connection: Connection, given: Mapping[str, Any]) -> Exception:
    """The error, with the name that was probably meant if it is about a topic or group that there is not."""
    if isinstance(error, UnknownName):
        kind: str | None = "topic"
    else:
        kind = _UNKNOWN.get(error.code) if isinstance(error, ApiError) else None
    if kind is None:
        return error
    words = [word.partition(":")[0] for name in (kind, f"{kind}s") for word in _words(given.get(name))]
    nearest = suggestions(connection, kind, words)
    if not nearest:
        return error
    meant = " and ".join(repr(each) for each in nearest)
    advised = CommandError(f"{explain(error)}; did you mean {meant}?")
    advised.__cause__ = error
    return advised


def suggestions(connection: Connection, kind: str, words: Iterable[str]) -> list[str]:
    """The names nearest to those of `words` that there are not."""
    try:
        with Admin(connection.settings(AdminSettings) | _IMPATIENT) as admin:
            known = sorted(_LISTS[kind](admin))
    except Exception:  # noqa: BLE001 - the error that is explained here matters more
        return []
    found = (nearest_name(word, known) for word in words if word not in known)
    return list(dict.fromkeys(each for each in found if each is not None))


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
