"""Requests for pages: what is read, and what is refused."""

import pytest

from tidelog.metrics.http import HEAD_BYTES_MAX, HttpError, accepts_openmetrics, parse_request, response_head

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def test_a_get_is_read() -> None:
    request = parse_request(b"GET /metrics?name[]=up HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n")
    assert request == ("GET", "/metrics", "text/plain", False)


def test_the_absolute_form_names_the_same_path() -> None:
    assert parse_request(b"GET http://a:1/metrics HTTP/1.1\r\n\r\n").path == "/metrics"


@pytest.mark.parametrize(
    ("version", "connection", "is_last"),
    [
        ("1.1", "", False),
        ("1.1", "Connection: Close\r\n", True),
        ("1.0", "", True),
        ("1.0", "Connection: keep-alive\r\n", False),
    ],
)
def test_a_connection_is_kept_as_its_client_asks(version: str, connection: str, is_last: bool) -> None:
    assert parse_request(f"GET / HTTP/{version}\r\n{connection}\r\n".encode()).is_last is is_last


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"G(T / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n: nameless\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    ],
)
def test_a_request_that_cannot_be_served_gets_the_status_that_says_why(head: bytes, status: int) -> None:
    with pytest.raises(HttpError) as error:
        parse_request(head)
    assert error.value.status == status


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS, True),
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=2.0.0", False),
        ("application/openmetrics-text;q=0.1, text/plain", False),
        ("application/openmetrics-text;q=x", False),
        ("application/openmetrics-text;q=0", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
    ],
)
def test_the_format_is_the_one_the_client_prefers(accept: str, openmetrics: bool) -> None:
    assert accepts_openmetrics(accept) is openmetrics


def test_a_response_says_its_length_and_whether_the_connection_ends() -> None:
    head = response_head(405, 12, is_last=True).decode()
    assert head.startswith("HTTP/1.1 405 Method Not Allowed\r\n")
    assert "Content-Length: 12\r\n" in head
    assert "Allow: GET, HEAD\r\n" in head
    assert "Connection: close\r\n\r\n" in head
