"""`tidelog cluster add|kill|stop|restart|down`: commands to a cluster that runs."""

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
    """Start one more broker. It gets partitions when topics are created or partitions reassigned."""
    added = send_command(ClusterDirectory(directory), "add")
    print_line(f"broker {added['broker']} serves on port {added['port']}")


def kill(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Kill a broker, as a crash would: kill -9."""
    send_command(ClusterDirectory(directory), "kill", broker=broker)
    print_line(f"broker {broker} is killed")


def stop(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker in order: its partitions get other leaders first."""
    send_command(ClusterDirectory(directory), "stop", broker=broker)
    print_line(f"broker {broker} has stopped")


def restart(broker: BrokerId, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop a broker in order, if it runs, and start it again."""
    send_command(ClusterDirectory(directory), "restart", broker=broker)
    print_line(f"broker {broker} serves again")


def down(directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop all brokers in order. The data stays; `tidelog cluster up` goes on with it."""
    place = ClusterDirectory(directory)
    send_command(place, "down")
    deadline = time.monotonic() + _DOWN_SECONDS
    while place.read().supervisor_pid:
        if time.monotonic() > deadline:
            raise CommandError(f"the cluster in {place.path} has not stopped within {_DOWN_SECONDS:.0f} s")
        time.sleep(0.05)
    print_line(f"the cluster in {place.path} is down")
