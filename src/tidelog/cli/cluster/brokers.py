"""`tidelog cluster add|kill|stop|restart|down`: commands for a running cluster."""

import time
from typing import Final

from tidelog.cli.cluster._options import DEFAULT_DIRECTORY, BrokerId, Directory, Process
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cluster.control import send_command
from tidelog.cluster.layout import ClusterDirectory
from tidelog.cluster.supervisor import ZOOKEEPER

ADD_EXAMPLE: Final = "tidelog cluster add"
KILL_EXAMPLE: Final = "tidelog cluster kill 2"
STOP_EXAMPLE: Final = "tidelog cluster stop 2"
RESTART_EXAMPLE: Final = "tidelog cluster restart 2"
DOWN_EXAMPLE: Final = "tidelog cluster down"

_DOWN_SECONDS: Final = 60.0


def add(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Start one more broker. It gets partitions of new topics, and those reassigned to it."""
    added = send_command(ClusterDirectory(directory), "add")
    print_line(f"broker {added['broker']} serves on port {added['port']}")


def kill(broker: Process, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a broker, or the cluster's own ZooKeeper, with SIGKILL, like a crash."""
    send_command(ClusterDirectory(directory), "kill", broker=_target(broker))
    print_line(f"killed {_name(broker)}")


def stop(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown: its leaders move first."""
    send_command(ClusterDirectory(directory), "stop", broker=broker)
    print_line(f"stopped broker {broker}")


def restart(broker: Process, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown, if it runs, and start it again; or the cluster's own ZooKeeper."""
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
    send_command(place, "down")
    deadline = time.monotonic() + _DOWN_SECONDS
    while place.read().supervisor_pid:
        if time.monotonic() > deadline:
            raise CommandError(f"the cluster in {place.path} did not stop within {_DOWN_SECONDS:.0f} s")
        time.sleep(0.05)
    print_line(f"the cluster in {place.path} is down")
