"""A disk fails while a broker looks after delayed records: the directory goes offline, whatever was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.storage.logs import EPOCH, NOW_MS
from tidelog.broker import delayed_delivery
from tidelog.broker.delayed_delivery import DelayedDelivery
from tidelog.config import LogConfig
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import Partition
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.log import Log

CONFIG = LogConfig(tidelog_delay_enable=True, cleanup_policy=("compact",))


class World:
    """A broker of one compacted partition, without timers: its housekeeping runs when a test says so."""

    def __init__(self, directory: Path) -> None:
        log = Log.create(str(directory / "t-0"), "t", 0, CONFIG, NOW_MS)
        self.partition = Partition("t", 0, bytes(16), log, 1)
        self.partition.make_leader(EPOCH, [1], [1])
        self.failures: list[LogDirFailure] = []
        self.keep_house: Callable[[], None] = lambda: None
        self.delivery = DelayedDelivery(
            cast(Any, SimpleNamespace(fail_log_dir=self.failures.append, staged=lambda _: None)),
            cast(Any, SimpleNamespace(config=SimpleNamespace(log_cleaner_enable=True))),
            cast(Any, SimpleNamespace(wall_ms=lambda: NOW_MS)),
            cast(Any, None),
            cast(Any, None),
            cast(Any, SimpleNamespace(schedule=self._schedule)),
            cast(Any, SimpleNamespace(start=lambda work, *_: work.close())),
            cast(Any, SimpleNamespace(run=self._run)),
            lambda: None,
            asyncio.get_running_loop(),
        )
        self.delivery.opened(self.partition)
        self.delivery.start()

    def _schedule(self, _name: str, work: Callable[[], None], *_times: int) -> None:
        self.keep_house = work

    async def _run(self, function: Callable[[], None]) -> None:
        function()


async def some_turns() -> None:
    """More turns of the event loop than any of this takes."""
    for _ in range(20):
        await asyncio.sleep(0)


def _fail(*_arguments: object) -> None:
    raise OSError(5, "the disk fails")


@pytest.mark.parametrize("is_floor", [True, False], ids=["a floor", "copies"])
def test_a_disk_that_fails_while_a_log_is_prepared_for_compaction_is_a_failed_directory(
    is_floor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = World(tmp_path)

        def fail(*_arguments: object) -> None:
            raise world.partition.log.fail(OSError(5, "the disk fails"))

        monkeypatch.setattr(delayed_delivery, "_next_step", lambda *_: None if is_floor else 1)
        monkeypatch.setattr(DelayedPartition, "settle", fail)
        monkeypatch.setattr(DelayedPartition, "before", fail)
        delayed = world.delivery.find("t", 0)
        assert delayed is not None
        monkeypatch.setattr(type(delayed.index), "first_location", 0)
        world.keep_house()
        await some_turns()
        assert [str(each.directory) for each in world.failures] == [str(tmp_path)]

    asyncio.run(main())


def test_a_checkpoint_that_cannot_be_written_is_a_failed_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = World(tmp_path)
        monkeypatch.setattr(DelayedPartition, "is_checkpointed", False)
        monkeypatch.setattr(DelayedPartition, "checkpoint", lambda _: SimpleNamespace(write=_fail))
        world.keep_house()
        await some_turns()
        assert [str(each.directory) for each in world.failures] == [str(tmp_path)]

    asyncio.run(main())
