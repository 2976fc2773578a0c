"""`tidelog cluster`: several brokers on this machine, in one directory."""

import time
from typing import Final

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.cluster import migrate, up
from tidelog.cli.cluster._directory import DEFAULT_DIRECTORY, BrokerId, Directory, Process, status
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cli.progress import waiting
from tidelog.cluster.control import send_command
from tidelog.cluster.layout import ClusterDirectory
from tidelog.cluster.supervisor import ZOOKEEPER

_DOWN_SECONDS: Final = 60.0


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    cluster = noun(application, "cluster", "Run several brokers on this machine, in one directory.")
    verb(cluster, "up", up.up, up.EXAMPLE, up.UpCommand)
    verb(cluster, "status", status, "tidelog cluster status --format json")
    verb(cluster, "add", add, "tidelog cluster add")
    verb(cluster, "kill", kill, "tidelog cluster kill 2")
    verb(cluster, "stop", stop, "tidelog cluster stop 2")
    verb(cluster, "restart", restart, "tidelog cluster restart 2")
    verb(cluster, "migrate", migrate.migrate, migrate.EXAMPLE)
    verb(cluster, "down", down, "tidelog cluster down")


def add(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Start one more broker. It gets partitions of new topics, and those reassigned to it."""
    with waiting("starting a broker"):
        added = send_command(ClusterDirectory(directory), "add")
    print_line(f"broker {added['broker']} serves on port {added['port']}")


def kill(broker: Process, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a broker, or the cluster's own ZooKeeper, with SIGKILL, like a crash."""
    send_command(ClusterDirectory(directory), "kill", broker=_target(broker))
    print_line(f"killed {_name(broker)}")


def stop(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown: its leaders move first."""
    with waiting(f"stopping broker {broker}: its leaders move first"):
        send_command(ClusterDirectory(directory), "stop", broker=broker)
    print_line(f"stopped broker {broker}")


def restart(broker: Process, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown, if it runs, and start it again; or the cluster's own ZooKeeper."""
    with waiting(f"restarting {_name(broker)}"):
        send_command(ClusterDirectory(directory), "restart", broker=_target(broker))
    print_line(f"{_name(broker)} serves again")


def _target(word: str) -> int | str:
    """The broker id, or `zookeeper`, as the supervisor takes it."""
    if word == ZOOKEEPER:
        return ZOOKEEPER
    try:
        return int(word)
    except ValueError:
        raise CommandError(f"{word!r} is neither a broker id nor `{ZOOKEEPER}`") from None


def _name(word: str) -> str:
    return "ZooKeeper" if word == ZOOKEEPER else f"broker {word}"


def down(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop all brokers by controlled shutdown, and ZooKeeper if it is the cluster's own.

    The data stays; `tidelog cluster up` uses it again.
    """
    place = ClusterDirectory(directory)
    with waiting(f"stopping the cluster in {place.path}: leaders move first"):
        send_command(place, "down")
        deadline = time.monotonic() + _DOWN_SECONDS
        while place.read().supervisor_pid:
            if time.monotonic() > deadline:
                raise CommandError(f"the cluster in {place.path} did not stop within {_DOWN_SECONDS:.0f} s")
            time.sleep(0.05)
    print_line(f"the cluster in {place.path} is down")
