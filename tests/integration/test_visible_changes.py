"""A change that the console makes is visible on every broker when the act ends: its next page may ask any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.integration.servers import Servers, member_of, until
from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import NewTopic
from tidelog.console.cluster_view import ClusterView
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest


class HeldBack:
    """Holds the UpdateMetadata requests to one broker back, and counts the Metadata requests that it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, servers: Servers, broker_id: int) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._cluster = member_of(servers.running[broker_id])
        self._monkeypatch = monkeypatch
        self.image = servers.running[broker_id].node.image
        served = self._cluster._served
        update = served[UpdateMetadataRequest]

        async def held(request: Any, version: int) -> Any:
            await self._is_open.wait()
            return await update(request, version)

        monkeypatch.setitem(cast(Any, served), UpdateMetadataRequest, held)

    def hold(self) -> None:
        self._is_open.clear()

    def release(self) -> None:
        self._is_open.set()


@pytest.mark.timeout(180)
def test_an_act_of_the_console_ends_when_a_broker_that_lags_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for topics that are created, widened and deleted; afterwards no broker shows the cluster as it was."""

    async def play(servers: Servers) -> None:
        controller = next(
            each for each, server in servers.running.items() if member_of(server).controller.controller.is_active
        )
        lagging = 3 - controller
        held = HeldBack(monkeypatch, servers, lagging)
        view = ClusterView({"bootstrap.servers": servers.addresses()})

        async def act(change: Callable[[AsyncAdmin], Awaitable[object]], is_done: Callable[[Any], bool]) -> None:
            images = {each: server.node.image for each, server in servers.running.items()}
            held.hold()
            task = asyncio.ensure_future(change(await view.admin()))
            await until(lambda: is_done(images[controller]))
            done, _ = await asyncio.wait({task}, timeout=0.5)
            assert not done, "the act ended although a broker does not show what it did"
            assert not is_done(images[lagging])
            held.release()
            await task
            assert is_done(images[lagging])

        def partitions(image: Any) -> int:
            found = image.topic("made")
            return 0 if found is None else len(found.partitions)

        try:
            await act(lambda admin: admin.create_topics([NewTopic("made", 1, 1)]), lambda image: partitions(image) == 1)
            await act(lambda admin: admin.create_partitions({"made": 3}), lambda image: partitions(image) == 3)
            await act(lambda admin: admin.delete_topics(["made"]), lambda image: partitions(image) == 0)
        finally:
            held.release()
            await view.close()

    async def main() -> None:
        servers = Servers(tmp_path)
        try:
            await servers.start(1, 2)
            await play(servers)
        finally:
            await servers.stop()

    asyncio.run(main())
