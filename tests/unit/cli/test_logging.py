"""Log lines: cut where names are long, and one line an event for programs, tracebacks included."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from tidelog.cli._logging import FORMATTERS, MESSAGE_LENGTH_MAX, clip_message, configure_logging


def test_a_log_line_that_quotes_a_long_name_is_cut() -> None:
    def said(name: str) -> str:
        record = logging.makeLogRecord({"msg": "group %s is removed", "args": (name,)})
        assert clip_message(record)
        return record.getMessage()

    assert said("g") == "group g is removed"
    assert said("g" * 32_000).startswith("group ggg")
    assert said("g" * 32_000).endswith("g… (32017 characters)")
    assert len(said("%s" * 16_000)) < MESSAGE_LENGTH_MAX + 30


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was before when the test is over."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(root: logging.Logger, log_format: str) -> list[str]:
    stream = io.StringIO()
    configure_logging("info", log_format, stream)
    logger = logging.getLogger("tidelog.example")
    logger.info("topic %s is created", "orders")
    logger.warning('it said "no",\nand left')
    try:
        raise ValueError("a cause")
    except ValueError:
        logger.exception("failed")
    logger.debug("not shown")
    return stream.getvalue().splitlines()


def test_json_has_an_object_for_each_event(root: logging.Logger) -> None:
    first, second, third = map(json.loads, lines(root, "json"))
    assert (first["level"], first["logger"], first["message"]) == ("INFO", "tidelog.example", "topic orders is created")
    assert first["time"].endswith("Z")
    assert second["message"] == 'it said "no",\nand left'
    assert "ValueError: a cause" in third["exception"]


def test_logfmt_has_a_line_of_pairs_for_each_event(root: logging.Logger) -> None:
    first, second, third = lines(root, "logfmt")
    assert 'level=INFO logger=tidelog.example message="topic orders is created"' in first
    assert r'message="it said \"no\",\nand left"' in second
    assert "ValueError: a cause" in third


def test_text_is_for_people(root: logging.Logger) -> None:
    assert lines(root, "text")[0].endswith("] INFO topic orders is created (tidelog.example)")


@pytest.mark.parametrize("log_format", FORMATTERS)
def test_a_name_with_line_ends_and_escape_sequences_forges_no_line_and_reaches_no_terminal(
    root: logging.Logger, log_format: str
) -> None:
    """Names of topics and client ids are whatever a client sends, also before it is authenticated."""
    stream = io.StringIO()
    configure_logging("info", log_format, stream)
    name = "x\n[2026-01-01 00:00:00,000] INFO principal User:admin is allowed\r\x1b[2J\x9b2J"
    logging.getLogger("kafka.authorizer.logger").info("principal %s is denied on TOPIC:%s", "User:mallory", name)
    (line,) = stream.getvalue().splitlines()
    assert "User:mallory" in line
    assert line.isprintable()


def test_every_format_takes_any_message() -> None:
    record = logging.LogRecord("tidelog", logging.INFO, __file__, 1, "\x00\ud800é=\u2028", (), None)
    for make in FORMATTERS.values():
        make().format(record).encode(sys.stderr.encoding or "utf-8", "backslashreplace")
