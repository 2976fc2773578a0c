"""Redirects the stderr of child processes and loggers to a file, so that they do not disturb our own output.

Spark's JVM and its Python workers inherit the descriptor and print warnings that do not help a user. After a failure,
the end of the file is shown.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_children(log_path: str) -> Iterator[None]:
    """Descriptor 2, log records and warnings go to `log_path`; `sys.stderr` writes where descriptor 2 did before."""
    sys.stderr.flush()
    before = os.dup(2)
    ours = open(os.dup(before), "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace")  # noqa: SIM115
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    kept, sys.stderr = sys.stderr, ours
    handler = logging.FileHandler(log_path, delay=True)
    try:
        os.dup2(log, 2)
        logging.captureWarnings(True)
        logging.getLogger().addHandler(handler)
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        logging.captureWarnings(False)
        handler.close()
        os.dup2(before, 2)
        sys.stderr = kept
        ours.close()
        os.close(log)
        os.close(before)


def last_lines(log_path: str, count: int = 15) -> str:
    """The last lines of the log file."""
    try:
        with open(log_path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-count:])
    except FileNotFoundError:
        return ""
