"""`tidelog cluster up`: start a cluster in the foreground or in the background."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from tidelog.cli._options import parse_assignments
from tidelog.cli.cluster._directory import DEFAULT_DIRECTORY, HEADINGS, BrokerRow, Directory, broker_rows
from tidelog.cli.errors import CommandError
from tidelog.cli.output import live_table, print_line
from tidelog.cluster.layout import ClusterDescription, ClusterDirectory
from tidelog.cluster.supervisor import OWN_ZOOKEEPER, Supervisor, new_description

if TYPE_CHECKING:
    from rich.text import Text

EXAMPLE: Final = "tidelog cluster up --brokers 3"

_REFRESH_SECONDS: Final = 1.0
_DETACH_SECONDS: Final = 90.0
_FIRST_PORT: Final = 9092


class UpCommand(TyperCommand):
    """Reads `--zookeeper` without an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        for index, word in enumerate(args):
            words.append(word)
            is_last = index + 1 == len(args)
            if word == "--zookeeper" and (is_last or args[index + 1].startswith("-")):
                words.append(OWN_ZOOKEEPER)
        return super().parse_args(ctx, words)


def up(
    brokers: Annotated[
        int | None, typer.Option("--brokers", help="How many brokers a new cluster has.", show_default="3", min=1)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            help="Port of the first broker of a new cluster; the others get the next ports. 0: any free ports.",
            show_default=str(_FIRST_PORT),
        ),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            help="Keep the metadata in this ZooKeeper instead of the directory; without an address, in one that is "
            "started with the cluster (it needs Java, and PySpark's jars).",
            metavar="[HOST:PORT[/CHROOT]]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of every broker.", metavar="NAME=VALUE")
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background: return when the cluster is ready.")
    ] = False,
) -> None:
    """Start a cluster on this machine; Ctrl-C stops it. Without --zookeeper, neither ZooKeeper nor Java is needed.

    The first `up` in a directory creates the cluster, later ones start it again with its data.
    """
    place = ClusterDirectory(directory)
    description = _describe(place, brokers, port, zookeeper, parse_assignments("--set", settings or ()))
    description.has_metrics = True
    if detach:
        _detach(place, description)
        return
    try:
        asyncio.run(_run(place, description))
    except asyncio.CancelledError:
        raise CommandError("stopped before every broker served") from None


def _describe(
    place: ClusterDirectory, brokers: int | None, port: int | None, zookeeper: str | None, settings: dict[str, str]
) -> ClusterDescription:
    if not place.exists():
        first_port = _FIRST_PORT if port is None else port or None
        return new_description(brokers or 3, first_port=first_port, settings=settings, zookeeper=zookeeper)
    description = place.read()
    if port and port != description.brokers[0].port:
        raise CommandError(
            f"the cluster in {place.path} has the ports {_ports(description)}; "
            f"omit --port {port}, or create another cluster with --directory"
        )
    if zookeeper is not None and not _keeps_metadata_in(description, zookeeper):
        kept = description.zookeeper or "the directory itself"
        raise CommandError(f"the cluster in {place.path} keeps its metadata in {kept}; omit --zookeeper")
    if description.supervisor_pid and _is_alive(description.supervisor_pid):
        raise CommandError(f"the cluster in {place.path} is already running (process {description.supervisor_pid})")
    if brokers is not None and brokers != len(description.brokers):
        raise CommandError(
            f"the cluster in {place.path} has {len(description.brokers)} brokers; "
            "omit --brokers, and use `tidelog cluster add` for more"
        )
    description.settings.update(settings)
    return description


def _ports(description: ClusterDescription) -> str:
    return ", ".join(str(broker.port) for broker in description.brokers)


def _keeps_metadata_in(description: ClusterDescription, zookeeper: str) -> bool:
    if zookeeper == OWN_ZOOKEEPER:
        return bool(description.zookeeper_port)
    return description.zookeeper == zookeeper


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def _run(place: ClusterDirectory, description: ClusterDescription) -> None:
    began = time.monotonic()
    supervisor = Supervisor(place, description)
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None, "a coroutine runs in a task"
    loop.add_signal_handler(signal.SIGTERM, this.cancel)  # as Ctrl-C does: no broker is left behind
    await supervisor.start()
    seconds = time.monotonic() - began
    print_line(f"{len(description.brokers)} brokers serve on {description.bootstrap_servers} after {seconds:.1f} s")
    sys.stdout.flush()
    asked = asyncio.create_task(supervisor.wait_until_asked_to_close())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.cancel)
    table = asyncio.create_task(_keep_table(description)) if sys.stdout.isatty() else None
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await asked
    finally:
        if table is not None:
            table.cancel()
            await asyncio.gather(table, return_exceptions=True)
        print_line("stopping the brokers")
        sys.stdout.flush()
        await supervisor.close()


async def _keep_table(description: ClusterDescription) -> None:
    """A table of the brokers, kept up to date until Ctrl-C."""
    from rich.live import Live

    with Live(_table(description, []), refresh_per_second=4) as live:
        while True:
            rows = await asyncio.to_thread(broker_rows, description)
            live.update(_table(description, rows))
            await asyncio.sleep(_REFRESH_SECONDS)


def _table(description: ClusterDescription, rows: list[BrokerRow]) -> "Text":
    caption = f"{description.bootstrap_servers} · Ctrl-C stops the cluster"
    return live_table(HEADINGS, [row.cells for row in rows], caption=caption)


def _detach(place: ClusterDirectory, description: ClusterDescription) -> None:
    """Start the supervisor as a process of its own and wait until it serves."""
    place.path.mkdir(parents=True, exist_ok=True)
    is_new = not place.exists()
    if is_new:
        place.write(description)
    with place.supervisor_log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "cluster", "up", "--directory", str(place.path), *_repeated(description)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    for _ in _until(_DETACH_SECONDS):
        if process.poll() is not None:
            if is_new:
                place.forget()
            raise CommandError(_last_words(place.supervisor_log))
        if place.exists() and place.read().supervisor_pid == process.pid and place.control_socket.exists():
            print_line(f"{len(description.brokers)} brokers serve on {description.bootstrap_servers}")
            print_line("stop them with `tidelog cluster down`")
            return
    process.terminate()
    raise CommandError(f"the cluster was not ready within {_DETACH_SECONDS:.0f} s; see {place.supervisor_log}")


def _repeated(description: ClusterDescription) -> Iterator[str]:
    for name, value in description.settings.items():
        yield from ("--set", f"{name}={value}")


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)


def _last_words(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join(line.removeprefix("tidelog: ") for line in lines[-12:]) or "the supervisor exited silently"
