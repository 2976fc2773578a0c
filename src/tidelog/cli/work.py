"""`tidelog work`: run workers, functions that are called for each record of a queue."""

import asyncio
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json_lines, print_line
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.work.worker import Worker

_EXAMPLE: Final = "tidelog work shop.tasks:send_invoice shop.tasks:resize --concurrency 8"


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "work", work, _EXAMPLE)


def work(
    connection: Connection,
    workers: Annotated[
        list[str],
        typer.Argument(
            help="Functions with @worker, as module:name; modules are looked for in this directory, too.",
            metavar="MODULE:NAME…",
            show_default=False,
        ),
    ],
    concurrency: Annotated[
        int | None, typer.Option(help="Records at once for each of them.", min=1, show_default="the function's own")
    ] = None,
    stop_timeout: Annotated[
        float | None,
        typer.Option(help="Seconds that a stop waits for what is handled.", min=0, show_default="the function's own"),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Call workers for the records of their topics, until SIGTERM or Ctrl-C. Many may run at once, on many machines."""
    found = [find_worker(each) for each in workers]
    settings = _cluster_of(connection)
    is_named = any(connection)
    for each in found:
        _tell(output, "started", each, topics=", ".join(each.topics), group=each.group_id)
    try:
        limits = {"concurrency": concurrency, "stop_timeout_s": stop_timeout}
        given = [settings if is_named or not each.has_servers else {} for each in found]
        asyncio.run(_serve([(worker, {**limits, **each}) for worker, each in zip(found, given, strict=True)]))
    finally:
        for each in found:
            counts = each.counts
            _tell(
                output,
                "stopped",
                each,
                handled=counts.handled,
                retried=counts.retried,
                rejected=counts.rejected,
                lost=counts.lost,
                abandoned=counts.abandoned,
            )
        if any(each.counts.abandoned for each in found):
            # The interpreter would wait for the threads of handlers that do not end.
            sys.stderr.flush()
            os._exit(1)


def find_worker(path: str) -> Worker:
    """The worker that `module:name` is."""
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise CommandError(f"{path!r} is not MODULE:NAME")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise CommandError(f"{path!r}: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Worker):
        what = "there is no such name" if found is None else f"{found!r} is no worker; decorate it with @worker(…)"
        raise CommandError(f"{path!r}: {what}")
    return found


def _cluster_of(connection: Connection) -> dict[str, Any]:
    """Where the options, or else the profile in use, say that the cluster is and how to connect to it."""
    found = connection.settings(CommonSettings)
    return {name: value for name, value in found.items() if name not in ("client.id", "bootstrap.timeout.ms")}


async def _serve(workers: Sequence[tuple[Worker, dict[str, Any]]]) -> None:
    """Run all of them as they are told; when one ends by an error, the others are stopped."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for each, _ in workers:
            each.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    tasks = [asyncio.create_task(each.serve(**given)) for each, given in workers]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    stop()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _tell(output: Format, event: str, worker: Worker, **facts: object) -> None:
    if output is Format.JSON:
        name = worker.handler.__qualname__
        print_json_lines([{"time": round(time.time(), 3), "event": event, "worker": name, **facts}])
    else:
        print_line(
            f"{event} {worker.handler.__qualname__}: " + ", ".join(f"{name} {value}" for name, value in facts.items())
        )
    sys.stdout.flush()
