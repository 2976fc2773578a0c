"""How often a broker is asked for what, and how long it takes: from the metrics that it serves over HTTP.

The client's protocol has no such numbers. A broker of ours with `metrics.listeners` serves them as text. `fetch`
blocks: use a thread.
"""

import ipaddress
import re
from collections.abc import Iterable
from http.client import HTTPException
from typing import Final, NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

SETTING: Final = "metrics.listeners"
TIMEOUT_S: Final = 2.0
BYTES_MAX: Final = 8 << 20
_PREFIX: Final = "kafka_network_requestmetrics_"
_LINE: Final = re.compile(_PREFIX + r'(\w+)\{request="(\w+)"(?:,quantile="([\d.]+)")?\} (\S+)')
_COUNT: Final = "totaltimems_count"


class RequestRow(NamedTuple):
    """One kind of request. Times are in milliseconds, of about the last minute; None where there were none."""

    request: str
    total: int
    median_ms: float | None
    slow_ms: float | None
    """99 of 100 are faster."""
    busy_ms: float | None
    """The part of `slow_ms` in which the broker itself works, likewise."""


def address_of(listeners: str, host: str) -> str | None:
    """Where the metrics of a broker at `host` are; None where its setting does not say, or names another machine.

    A loopback address is that of the broker's machine and not of this one, unless the broker is reached so as well.
    """
    for each in listeners.split(","):
        try:
            parts = urlsplit(each.strip())
            name, port = parts.hostname or "", parts.port
        except ValueError:
            continue
        if parts.scheme != "http" or not port:
            continue
        if name in ("", "0.0.0.0", "::") or name == host:  # noqa: S104 - compared, not listened on
            name = host
        elif _is_loopback(name) and not _is_loopback(host):
            continue
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/metrics"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch(address: str) -> list[RequestRow]:
    """The requests of a broker, the most frequent first. Raises OSError."""
    try:
        with urlopen(address, timeout=TIMEOUT_S) as reply:  # noqa: S310 - `address_of` made it
            text = reply.read(BYTES_MAX).decode("utf-8", "replace")
    except (URLError, HTTPException, ValueError) as error:
        raise OSError(f"{address}: {getattr(error, 'reason', None) or error}") from None
    return rows_of(text.splitlines())


def rows_of(lines: Iterable[str]) -> list[RequestRow]:
    """The requests in a text of metrics, the most frequent first."""
    counts: dict[str, int] = {}
    times: dict[tuple[str, str, str], float] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is not None:
            name, request, quantile, value = found.groups()
            try:
                if name == _COUNT:
                    counts[request] = int(float(value))
                elif quantile:
                    times[request, name, quantile] = float(value)
            except (ValueError, OverflowError):
                continue
    rows = [
        RequestRow(
            request,
            count,
            times.get((request, "totaltimems", "0.50")),
            times.get((request, "totaltimems", "0.99")),
            times.get((request, "localtimems", "0.99")),
        )
        for request, count in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row.total, row.request))
