"""Hosts and origins that the console serves."""

import pytest

from tidelog.console.guard import Guard


async def _app(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def serve(method="GET", **headers):
    """The status and the headers of the response."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/", "headers": raw}
    serving = Guard(_app, ["console.example"])(scope, receive, send)
    with pytest.raises(StopIteration):
        serving.send(None)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "10.0.0.7", "console.example:80"]
)
def test_own_hosts_and_addresses_are_served(host):
    assert serve(host=host)[0] == 200


@pytest.mark.parametrize("host", ["", "evil.example", "localhost.evil.example", "[::1", "127.0.0.1.evil.example"])
def test_names_of_others_are_refused(host):
    assert serve(host=host)[0] == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:8080"}, 200),
        ({"origin": "http://localhost:8081"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
    ],
)
def test_changes_come_from_own_pages_only(headers, status):
    assert serve("POST", host="localhost:8080", **headers)[0] == status
    assert serve("GET", host="localhost:8080", **headers)[0] == 200


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_every_response_has_the_security_headers(host):
    headers = serve(host=host)[1]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
