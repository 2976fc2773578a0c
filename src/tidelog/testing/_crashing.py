"""A broker process that crashes where a test wants it to: `python -m tidelog.testing._crashing PLACE SETTINGS`.

PLACE is the name of a place in the transaction coordinator's work, such as `before-markers`: the process ends with
SIGKILL when it gets there, or, as `before-markers:3`, when it gets there for the third time. SETTINGS is a JSON object.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable

from tidelog.broker.server import run
from tidelog.config import load_broker_config


def crash_at(place: str) -> Callable[[str], None]:
    """What the broker calls with the name of each place it reaches."""
    name, _, count = place.partition(":")
    times_left = int(count or 1)

    def reach(reached: str) -> None:
        nonlocal times_left
        if reached == name:
            times_left -= 1
            if times_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reach


def announce(address: str) -> None:
    """As `tidelog serve` does."""
    sys.stdout.write(f"tidelog ready {address}\n")
    sys.stdout.flush()


def main(place: str, settings: str) -> int:
    logging.basicConfig(level=logging.INFO)
    return run(load_broker_config(json.loads(settings)), announce, crash_at(place))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
