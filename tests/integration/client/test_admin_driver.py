"""How an admin asks: grouping, repetition, and the error when some of it fails."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.integration.client.fake_broker import FakeBroker
from tests.integration.client.test_network import client_of, run
from tidelog.client.aio.admin.driver import Answers, Driver, PartlyRefused
from tidelog.client.errors import ApiError, ConnectionLost, DeadlinePassed
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode


def with_driver(
    test: Callable[[FakeBroker, Driver], Awaitable[None]], *, timeout_ms: int = 5000, topics: tuple[str, ...] = ()
) -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            broker.topics["topic"] = 2
            client = client_of(broker, topics=topics)
            await client.start()
            try:
                await test(broker, Driver(client, timeout_ms))
            finally:
                await client.close()

    run(work())


class Script:
    """Answers each item with the next of what the test wrote down for it."""

    def __init__(self, **answers: Any) -> None:
        self.left = {name: list(given) for name, given in answers.items()}
        self.asked: list[tuple[int, list[str]]] = []

    async def __call__(self, node_id: int, items: list[str]) -> Answers[str, int]:
        self.asked.append((node_id, items))
        answers: Answers[str, int] = {}
        for item in items:
            given = self.left[item].pop(0)
            if isinstance(given, ErrorCode):
                answers[item] = ApiError(given)
            elif isinstance(given, Exception):
                raise given
            else:
                answers[item] = given
        return answers


def test_what_is_answered_is_kept_and_only_the_rest_asked_again() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        script = Script(a=[1], b=[ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, 2])
        assert await driver.run(["a", "b", "a"], driver.to_controller, script) == {"a": 1, "b": 2}
        assert [items for _, items in script.asked] == [["a", "b"], ["b"], ["b"]]

    with_driver(test)


def test_a_lost_connection_is_asked_over() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        script = Script(a=[ConnectionLost("host:1", "reset"), 1])
        assert await driver.run(["a"], driver.to_any, script) == {"a": 1}

    with_driver(test)


def test_one_refusal_is_raised_as_it_is_and_several_with_the_rest() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        with pytest.raises(ApiError) as alone:
            await driver.run(["a"], driver.to_any, Script(a=[ErrorCode.INVALID_CONFIG]))
        assert alone.value.code is ErrorCode.INVALID_CONFIG
        script = Script(a=[ErrorCode.INVALID_CONFIG], b=[2], c=[ErrorCode.POLICY_VIOLATION])
        with pytest.raises(PartlyRefused, match="2 of 3 failed") as some:
            await driver.run(["a", "b", "c"], driver.to_any, script)
        assert some.value.results == {"b": 2}
        assert {item: error.code for item, error in some.value.errors.items()} == {
            "a": ErrorCode.INVALID_CONFIG,
            "c": ErrorCode.POLICY_VIOLATION,
        }

    with_driver(test)


def test_time_runs_out_with_the_last_reason() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        script = Script(a=[ErrorCode.NOT_CONTROLLER] * 1000)
        with pytest.raises(DeadlinePassed, match=r"default\.api\.timeout\.ms=60: NOT_CONTROLLER"):
            await driver.run(["a"], driver.to_controller, script)

        async def never(_node_id: int, _items: list[str]) -> Answers[str, int]:
            await asyncio.sleep(60)
            return {}

        with pytest.raises(DeadlinePassed, match="no response within"):
            await driver.run(["a"], driver.to_any, never)

    with_driver(test, timeout_ms=60)


def test_an_item_the_answer_forgets_is_an_error() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        async def silent(_node_id: int, _items: list[str]) -> Answers[str, int]:
            return {}

        with pytest.raises(ApiError, match="missing in the broker's response"):
            await driver.run(["a"], driver.to_any, silent)

    with_driver(test)


def test_partitions_go_to_their_leaders_and_unknown_ones_are_errors() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        asked: list[tuple[int, list[TopicPartition]]] = []

        async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, int]:
            asked.append((node_id, items))
            return dict.fromkeys(items, 0)

        places = [TopicPartition("topic", 0), TopicPartition("topic", 1)]
        await driver.run(places, driver.to_leader, ask)
        assert asked == [(1, places)]
        for wrong in (TopicPartition("topic", 2), TopicPartition("other", 0)):
            with pytest.raises(ApiError, match=f"{wrong} does not exist"):
                await driver.run([wrong], driver.to_leader, ask)

    with_driver(test, topics=("topic",))


def test_a_broker_that_is_not_in_the_cluster_is_refused_by_name() -> None:
    async def test(broker: FakeBroker, driver: Driver) -> None:
        with pytest.raises(ApiError, match="no broker 7; the cluster has 1"):
            await driver.run([7], driver.to_broker, Script())  # type: ignore[arg-type]

    with_driver(test)
