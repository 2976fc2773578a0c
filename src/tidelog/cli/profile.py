"""`tidelog profile`: clusters by name, so that commands need no options to connect."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidelog.cli import _profiles
from tidelog.cli._clients import known_settings
from tidelog.cli._options import DEFAULT_BOOTSTRAP, parse_assignments
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.config import parse_properties
from tidelog.config.names import with_suggestion

_HEADINGS: Final = ("PROFILE", "IN-USE", "BOOTSTRAP-SERVERS", "SECURITY", "FILE")


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    group = noun(application, "profile", "Clusters by name: settings that commands connect with.")
    verb(group, "create", create, "tidelog profile create staging --bootstrap-server broker-1:9092 --use")
    verb(group, "use", use, "tidelog profile use staging")
    verb(group, "list", list_profiles, "tidelog profile list")
    verb(group, "delete", delete, "tidelog profile delete staging")


def create(
    name: Annotated[str, typer.Argument(help="Name of the profile.", metavar="NAME", show_default=False)],
    bootstrap_server: Annotated[
        str | None, typer.Option(help="Brokers to connect to first, host:port[,host:port…].", metavar="HOST:PORT")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Take the settings of this properties file.", metavar="FILE")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A client setting; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option(help="Schema registry of `consume` and `console`.", metavar="URL")
    ] = None,
    use_it: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a profile of that name.")] = False,
) -> Result:
    """Create a profile from options, a properties file, or both; options win."""
    settings = {} if from_file is None else dict(parse_properties(from_file.read_text(encoding="utf-8")))
    settings |= parse_assignments("--set", set_ or ())
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    if schema_registry is not None:
        settings[_profiles.REGISTRY_SETTING] = schema_registry
    if not settings.get("bootstrap.servers"):
        raise CommandError("a profile needs the address of a broker: give --bootstrap-server, or --from-file with it")
    known = known_settings()
    for each in settings:
        if each not in known:
            described = with_suggestion(each, known)
            sys.stderr.write(f"tidelog: {described} is not a setting of Tidelog's clients; kept for Kafka's tools\n")
    path = _profiles.write(name, settings, replace=replace)
    if use_it:
        _profiles.use(name)
    text = f"Created profile {name} in {path}." + (" It is in use now." if use_it else "")
    return Result({"profile": name, "file": str(path), "in_use": use_it}, text)


def use(
    profile: Annotated[str | None, typer.Argument(help="Name of the profile.", metavar="NAME")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile.")] = False,
) -> Result:
    """Choose the profile of commands that name no cluster."""
    if (profile is None) is not none:
        raise CommandError("give the name of a profile, or --none")
    _profiles.use(profile)
    return Result({"profile": profile}, f"Using profile {profile}." if profile else "No profile is in use now.")


def list_profiles() -> Result:
    """List the profiles, and which is in use."""
    in_use = _profiles.name_in_use()
    document: list[dict[str, Any]] = [
        {
            "profile": each.name,
            "in_use": each.name == in_use,
            "bootstrap_servers": each.settings.get("bootstrap.servers", DEFAULT_BOOTSTRAP),
            "security_protocol": each.settings.get("security.protocol", "PLAINTEXT"),
            "file": str(each.path),
        }
        for each in map(_profiles.read, _profiles.names())
    ]
    rows = [(name, "yes" if is_used else "-", *rest) for name, is_used, *rest in (each.values() for each in document)]
    nothing = "There is no profile; `tidelog profile create` makes one."
    return Result(document, Table(headings=_HEADINGS, rows=rows, nothing=nothing))


def delete(
    profile: Annotated[str, typer.Argument(help="Name of the profile.", metavar="NAME", show_default=False)],
) -> Result:
    """Delete a profile."""
    was_in_use = _profiles.delete(profile)
    text = f"Deleted profile {profile}." + (" No profile is in use now." if was_in_use else "")
    return Result({"deleted": profile, "was_in_use": was_in_use}, text)
