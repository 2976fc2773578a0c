"""A limit on log lines that a client can cause, so that hostile requests cannot fill a disk with tracebacks.

`LogRateLimit` is a `logging.Filter` for the loggers of modules that log what clients do. Lines of one kind share an
allowance: the same message before its values are filled in and, with a traceback, the same error raised at the same
place. The first line after a pause says how many were left out.
"""

from __future__ import annotations

import logging
from typing import Final

_KINDS_MAX: Final = 256
"""Kinds are places in the code, so there are far fewer; the bound guards against a mistake in that."""


class _Window:
    """The lines of one kind since `began_s`."""

    __slots__ = ("began_s", "left_out", "logged")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.logged = 0
        self.left_out = 0


class LogRateLimit(logging.Filter):
    """Lets `lines_max` lines of each kind pass in `interval_s` seconds."""

    def __init__(self, lines_max: int = 10, interval_s: float = 10.0) -> None:
        super().__init__()
        self._lines_max = lines_max
        self._interval_s = interval_s
        self._windows: dict[object, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = _kind(record)
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= _KINDS_MAX:
                self._windows.clear()
            window = self._windows[kind] = _Window(record.created)
        elif record.created - window.began_s >= self._interval_s:
            if window.left_out:
                record.msg = f"{record.msg} ({window.left_out} more lines of this kind were left out)"
            self._windows[kind] = window = _Window(record.created)
        if window.logged >= self._lines_max:
            window.left_out += 1
            return False
        window.logged += 1
        return True


def _kind(record: logging.LogRecord) -> object:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record.msg
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return record.msg, type(error), place
