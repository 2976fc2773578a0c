"""The small part of HTTP/1.1 that a page of metrics needs: heads of requests in, heads of responses out, no I/O.

A request is a GET or a HEAD without a body. Everything else is refused with the status that says why; what cannot be
read at all gets 400 and ends the connection.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 8192
"""A larger head is refused with 431."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_OPENMETRICS: Final = "application/openmetrics-text"


class HttpError(Exception):
    """A request that is refused. The connection ends with it, unless `is_readable`."""

    def __init__(self, status: int, text: str, *, is_readable: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.is_readable = is_readable


class Request(NamedTuple):
    """A request without a body."""

    method: str
    path: str
    accept: str
    is_last: bool
    """The connection is closed after the response."""


def parse_request(head: bytes) -> Request:
    """Read a head, from the request line to the empty line after the headers. Raises HttpError."""
    if len(head) > HEAD_BYTES_MAX:
        raise HttpError(431, f"the head of a request may have {HEAD_BYTES_MAX} bytes")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[0] or not _TOKEN.issuperset(words[0]):
        raise HttpError(400, "this is not an HTTP request")
    method, target, version = words
    if not version.startswith("HTTP/1."):
        raise HttpError(505, "HTTP/1.1 is spoken here")
    headers = _parse_headers(lines[1:])
    if headers.get("content-length", "0").strip("0") or "transfer-encoding" in headers:
        raise HttpError(413, "requests with a body are not read")
    connection = headers.get("connection", "").lower()
    is_last = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    path = target.partition("?")[0]
    if not path.startswith("/"):
        # The absolute form, which proxies send.
        path = "/" + path.partition("://")[2].partition("/")[2]
    return Request(method, path, headers.get("accept", ""), is_last)


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        if not line:
            continue
        name, colon, value = line.partition(":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise HttpError(400, "a header is not of the form name: value")
        name = name.lower()
        headers[name] = f"{headers[name]},{value.strip()}" if name in headers else value.strip()
    return headers


def accepts_openmetrics(accept: str) -> bool:
    """Whether a client prefers OpenMetrics to the older text format, by its Accept header."""
    openmetrics = text = 0.0
    for item in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = _quality(parameters)
        if media_type == _OPENMETRICS:
            versions = [part.removeprefix("version=") for part in parameters if part.startswith("version=")]
            if not versions or versions[0].strip('"') in ("0.0.1", "1.0.0"):
                openmetrics = max(openmetrics, quality)
        elif media_type in ("text/plain", "text/*", "*/*"):
            text = max(text, quality)
    return openmetrics > 0 and openmetrics >= text


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(max(float(parameter[2:]), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def response_head(
    status: int, length: int, content_type: str = "text/plain; charset=utf-8", *, is_last: bool = False
) -> bytes:
    """The head of a response with `length` bytes of body."""
    allowed = "Allow: GET, HEAD\r\n" if status == 405 else ""
    ending = "close" if is_last else "keep-alive"
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n"
        f"{allowed}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: {ending}\r\n\r\n"
    ).encode("latin-1")
