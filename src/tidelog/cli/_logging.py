"""How a broker writes its log: text for people, or one line an event as key=value pairs or JSON for programs."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TextIO

MESSAGE_LENGTH_MAX: Final = 2000
"""Limit for a message; tracebacks are not cut."""

_QUOTED: Final = frozenset(' "=\\')


def configure_logging(level: str, log_format: str, stream: TextIO) -> None:
    """Write every logger's lines of `level` and above to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMATTERS[log_format]())
    handler.addFilter(clip_message)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())


def clip_message(record: logging.LogRecord) -> bool:
    """Cut long lines: names in requests may have 32,767 bytes, and requests must not fill the disk with logs."""
    message = record.getMessage()
    if len(message) > MESSAGE_LENGTH_MAX:
        record.msg = f"{message[:MESSAGE_LENGTH_MAX]}… ({len(message)} characters)"
        record.args = ()
    return True


class TextFormatter(logging.Formatter):
    """One line a message. Names in it come from clients: they must not look like lines of their own."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")

    def set_part(self, part: str) -> None:
        """Say in each line which of this machine's processes it is from."""
        self._style._fmt = f"[%(asctime)s] [{part}] %(levelname)s %(message)s (%(name)s)"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = _printable(record.message)
        return super().formatMessage(record)


class LineFormatter(logging.Formatter):
    """One line an event, also for one with a traceback."""

    def __init__(self, line: Callable[[Mapping[str, str]], str]) -> None:
        """`line` writes the fields of an event."""
        super().__init__()
        self._line = line
        self._part: Mapping[str, str] = {}

    def set_part(self, part: str) -> None:
        """Say in each line which of this machine's processes it is from."""
        self._part = {"process": part}

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            **self._part,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return self._line(fields)


def _pairs(fields: Mapping[str, str]) -> str:
    return " ".join(f"{name}={_logfmt(value)}" for name, value in fields.items())


def _json(fields: Mapping[str, str]) -> str:
    return _printable(json.dumps(fields, ensure_ascii=False))


def _logfmt(value: str) -> str:
    if value and value.isprintable() and not _QUOTED & set(value):
        return value
    return _printable(json.dumps(value, ensure_ascii=False))


def _printable(text: str) -> str:
    """The text with line ends and other control characters escaped, as JSON has them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


FORMATTERS: Final[Mapping[str, Callable[[], logging.Formatter]]] = {
    "text": TextFormatter,
    "logfmt": partial(LineFormatter, _pairs),
    "json": partial(LineFormatter, _json),
}
