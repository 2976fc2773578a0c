"""A look at a cluster ends in time, whatever does not answer, and says what it could not read."""

import asyncio
from typing import Any, cast

from tests.unit import virtual_time
from tidelog.client.aio.admin.types import ClusterDescription
from tidelog.client.types import BrokerNode
from tidelog.health.snapshot import PART_SECONDS_MAX, Snapshot, take

NODES = (BrokerNode(1, "h", 1), BrokerNode(2, "h", 2))


class OneBrokerIsDead:
    """An admin of a cluster whose metadata does not show yet that a broker has died."""

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("cluster", 1, NODES)

    def __getattr__(self, name: str) -> Any:
        async def call(*_arguments: object, **_options: object) -> object:
            if name in ("describe_log_dirs", "list_groups"):
                await asyncio.Event().wait()
            return {} if name.startswith(("describe", "list_partition", "list_offsets")) else []

        return call


def test_a_broker_that_does_not_answer_ends_its_part_of_the_look() -> None:
    async def main() -> tuple[Snapshot, float]:
        began = asyncio.get_running_loop().time()
        seen = await take(cast(Any, OneBrokerIsDead()), 0)
        return seen, asyncio.get_running_loop().time() - began

    seen, seconds = virtual_time.run(main())
    assert {*seen.unread} == {"log directories", "groups"}
    assert seconds == PART_SECONDS_MAX
    assert seen.broker_ids == [1, 2]
