"""A console, inside this process or as one of its own, and a browser's part of it: pages, forms, their secrets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

from starlette.testclient import TestClient

from tidelog.console.app import build_app
from tidelog.console.settings import ClusterSettings, ConsoleSettings, Listen

LISTEN = Listen("127.0.0.1", 8080)


class Browser:
    """Loads pages and submits their forms."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        response = self.client.get(path)
        assert response.status_code == status, response.text
        return response.text

    def submit(self, path: str, status: int = 200, to: str | None = None, **values: Any) -> str:
        """Load a page, fill its last form in, and return the page that follows."""
        form = self.page(path)
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
        data = {name: unescape(value) for name, value in hidden.items()} | values
        response = self.client.post(to or path, data=data, headers={"origin": str(self.client.base_url)})
        assert response.status_code == status, response.text
        return response.text


@contextmanager
def console(servers: str, **settings: Any) -> Iterator[Browser]:
    """A console of the cluster at `servers`."""
    client = {"bootstrap.servers": servers, "bootstrap.timeout.ms": 1000, **settings.pop("client", {})}
    clock = settings.pop("clock", time.monotonic)
    clusters = settings.pop("clusters", None)
    if clusters is None:
        clusters = (ClusterSettings(client=client, schema_registry=settings.pop("schema_registry", None)),)
    app = build_app(ConsoleSettings(clusters=clusters, listen=LISTEN, sample_interval_s=0.2, **settings), clock)
    with TestClient(app, base_url=f"http://{LISTEN}") as made:
        yield Browser(made)


@contextmanager
def console_process(servers: str | None, *options: str, **environment: str) -> Iterator[str]:
    """The URL of a console that runs as its users run it. Without `servers` the options name its clusters."""
    command = [sys.executable, "-m", "tidelog", "console", "--listen", "127.0.0.1:0"]
    command += ["--bootstrap-server", servers] if servers is not None else []
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        assert words[:3] == ["tidelog", "console", "ready"], words
        yield words[3]
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(60) == 0
