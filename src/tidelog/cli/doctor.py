"""`tidelog doctor`: what is wrong with a cluster, its settings and this machine, and what to do about it."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb
from tidelog.cli.output import print_json, print_line
from tidelog.cli.progress import waiting
from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.health import Finding, Level, examine, worst
from tidelog.health.findings import counted
from tidelog.health.host import examine_host

EXAMPLE: Final = "tidelog doctor --bootstrap-server 127.0.0.1:9092"

_SIGNS: Final = {Level.BAD: "BAD ", Level.WARNING: "WARN", Level.NOTE: "NOTE"}


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "doctor", doctor, EXAMPLE)


def doctor(
    connection: Connection,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Also check this settings file of a broker.", metavar="FILE", exists=True),
    ] = None,
    wait: Annotated[
        float,
        typer.Option("--wait", help="Seconds between two looks, to find what should move and does not.", min=0),
    ] = 3.0,
    only_host: Annotated[bool, typer.Option("--host", help="Check this machine only, and no cluster.")] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Check brokers, partitions, disks, settings, groups and transactions. The exit code is 1 if something is wrong."""
    findings = examine_host(config)
    if not only_host:
        settings = connection.settings(AdminSettings)
        with waiting(f"looking at {settings['bootstrap.servers']}, twice within {wait:g} s"):
            findings += asyncio.run(_examine(settings, wait))
    findings.sort(key=lambda each: -each.level)
    if output is Format.JSON:
        print_json([_as_json(each) for each in findings])
    else:
        _print(findings)
    if worst(findings) >= Level.WARNING:
        raise typer.Exit(1)


async def _examine(settings: dict[str, object], wait_s: float) -> list[Finding]:
    async with AsyncAdmin(settings) as admin:
        return await examine(admin, wait_s)


def _print(findings: list[Finding]) -> None:
    for each in findings:
        print_line(f"{_SIGNS[each.level]}  {each.subject}: {each.text}")
        print_line(f"      {each.advice}")
    counts = {level: sum(each.level is level for each in findings) for level in Level}
    if worst(findings) < Level.WARNING:
        print_line("everything is in order" if not findings else "nothing is wrong")
    else:
        warnings, notes = counted(counts[Level.WARNING], "warning"), counted(counts[Level.NOTE], "note")
        print_line(f"{counts[Level.BAD]} bad, {warnings}, {notes}")


def _as_json(each: Finding) -> dict[str, str]:
    return {"level": each.level.name.lower(), "subject": each.subject, "text": each.text, "advice": each.advice}
