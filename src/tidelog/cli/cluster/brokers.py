"""`tidelog cluster add|kill|stop|restart|down`: commands for a running cluster."""

import time
from typing import Final

from tidelog.cli.cluster._options import DEFAULT_DIRECTORY, BrokerId, Directory
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.cluster.control import send_command
from tidelog.cluster.layout import ClusterDirectory

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


def kill(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a broker with SIGKILL, like a crash."""
    send_command(ClusterDirectory(directory), "kill", broker=broker)
    print_line(f"killed broker {broker}")


def stop(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown: its leaders move first."""
    send_command(ClusterDirectory(directory), "stop", broker=broker)
    print_line(f"stopped broker {broker}")


def restart(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker by controlled shutdown, if it runs, and start it again."""
    send_command(ClusterDirectory(directory), "restart", broker=broker)
    print_line(f"broker {broker} serves again")


def down(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop all brokers by controlled shutdown. The data stays; `tidelog cluster up` uses it again."""
    place = ClusterDirectory(directory)
    send_command(place, "down")
    deadline = time.monotonic() + _DOWN_SECONDS
    while place.read().supervisor_pid:
        if time.monotonic() > deadline:
            raise CommandError(f"the cluster in {place.path} did not stop within {_DOWN_SECONDS:.0f} s")
        time.sleep(0.05)
    print_line(f"the cluster in {place.path} is down")
