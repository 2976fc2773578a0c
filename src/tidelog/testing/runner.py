"""What `Broker` needs of whatever runs a broker for it: a thread (`_threaded`) or a process (`_process`)."""

from collections.abc import Mapping
from typing import Protocol


class BrokerFailed(RuntimeError):  # noqa: N818 - it says what happened
    """The broker did not start, or did not stop as it should; the message ends with its last log lines."""


class Runner(Protocol):
    """Runs one broker, once."""

    @property
    def pid(self) -> int:
        """The process that the broker runs in."""

    def start(self, properties: Mapping[str, str]) -> tuple[str, int]:
        """Start a broker and return host and port once it serves; raises BrokerFailed."""

    def stop(self) -> None:
        """Controlled shutdown; waits for the end."""

    def kill(self) -> None:
        """Kill it; waits for the end."""

    def travel(self, forward_ms: int) -> None:
        """Set the broker's clocks forward."""

    def signal(self, number: int) -> None:
        """Send a signal to the broker's process."""

    def logs(self) -> str:
        """What the broker has logged so far."""
