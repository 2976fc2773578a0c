"""Keeps what Spark and its processes print away from the terminal: in a file, whose name an error shows."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The names that PySpark gives to its loggers of failed queries."""


@contextmanager
def log_file(verbose: bool) -> Iterator[Path | None]:
    """A file for Spark's stderr, so that it does not disturb the view; None with --verbose."""
    if verbose:
        yield None
        return
    handle, name = tempfile.mkstemp(prefix="tidelog-pipeline-", suffix=".log")
    os.close(handle)
    # Also messages of this process about failed or interrupted batches.
    logging.basicConfig(filename=name, level=logging.WARNING)
    yield Path(name)


@contextmanager
def stderr_into(log: Path | None) -> Iterator[None]:
    """Processes started meanwhile, Java and its children, write their stderr into `log`."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def query_errors_into(log: Path | None) -> None:
    """PySpark also writes errors of DataFrames to stderr, each in a line of JSON with the plan and Java's stack."""
    if log is None:
        return
    from pyspark.logger import PySparkLogger

    for name in _QUERY_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.FileHandler(log, delay=True))
