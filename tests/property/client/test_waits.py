"""Whatever the order of events, nothing in a client waits without something to come that ends the wait.

`tidelog.client.aio.waits` lists the waits and what ends each. Hypothesis draws the events; after each of them, once
everything that is ready has run, the list must hold for every partition, batch and request.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.client import consumer_world, link_world, producer_world, test_idempotence
from tests.property.effort import examples
from tests.unit.virtual_time import run
from tidelog.client.aio.waits import WAITS, Wait
from tidelog.wire.errors import ErrorCode

CODES = [
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
]
numbers = st.integers(0, 5)
partitions = st.integers(0, len(consumer_world.PARTITIONS) - 1)
consumer_events = st.one_of(
    st.tuples(st.just("assign"), st.sets(st.sampled_from(consumer_world.PARTITIONS), min_size=1)),
    st.tuples(st.just("seek"), partitions, st.integers(0, len(consumer_world.SEEKS) - 1)),
    st.tuples(st.just("move"), partitions, st.sampled_from([1, 2, 1, 2, -1])),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("connect"), st.sampled_from(consumer_world.BROKERS)),
    st.tuples(st.just("answer"), numbers, st.sampled_from(CODES), st.booleans()),
    st.tuples(st.just("answer"), numbers, st.just(ErrorCode.NONE), st.just(False)),
    st.tuples(st.just("lose"), numbers),
    st.tuples(st.just("pause"), st.sampled_from([1, 60, 150, 6000])),
)


def test_every_wait_has_something_that_ends_it() -> None:
    assert set(WAITS) == set(Wait)
    assert all(WAITS.values())


class TestConsumers:
    @given(st.lists(consumer_events, max_size=40))
    @settings(deadline=None, max_examples=examples(150))
    def test_no_partition_waits_for_an_event_that_has_passed(self, script: Sequence[tuple[Any, ...]]) -> None:
        run(_play_consumer(script))

    @pytest.mark.parametrize("is_metadata_first", [True, False])
    def test_a_committed_offset_is_validated_and_fetched_whatever_comes_last(self, is_metadata_first: bool) -> None:
        """As a member that comes back: metadata is there before the committed offset, or after it."""

        async def main() -> None:
            world = consumer_world.World()
            await world.call(lambda: world.engine.assign(consumer_world.PARTITIONS[:1]))
            if is_metadata_first:
                await world.refresh()
            await world.answer(0, ErrorCode.NONE)
            if not is_metadata_first:
                await world.refresh()
            world.check()
            await world.connect(1)
            await world.answer(0, ErrorCode.NONE)
            world.check()
            assert [type(each.request).__name__ for each in world.open] == ["FetchRequest"]
            await world.close()

        run(main())


producer_events = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.just(b"value")),
    st.tuples(st.just("arrive")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("refuse"), st.sampled_from(test_idempotence.REFUSALS)),
    st.tuples(st.just("advance"), st.sampled_from([1, 120, 1000, 40_000, 130_000])),
    st.tuples(st.just("lose_connection")),
    st.tuples(st.just("connect"), st.booleans()),
    st.tuples(st.just("lead"), st.booleans()),
)


class TestProducers:
    @given(st.lists(producer_events, max_size=50), st.booleans(), st.sampled_from([0, 300]))
    @settings(deadline=None, max_examples=examples(150))
    def test_no_batch_waits_for_an_event_that_has_passed(
        self, script: Sequence[tuple[Any, ...]], is_idempotent: bool, linger_ms: int
    ) -> None:
        run(_play_producer(script, is_idempotent, linger_ms))

    def test_a_batch_behind_one_that_was_given_up_goes_on_at_once(self) -> None:
        """Whether the one given up was stored is not known: another epoch is needed, and nothing else."""
        script = [
            ("send", 0, b"first"), ("arrive",), ("lose_connection",), ("connect", False), ("advance", 119_000),
            ("send", 0, b"second"), ("advance", 2000), ("connect", True),
        ]  # fmt: skip
        run(_play_producer(script, True, 0))


link_events = st.one_of(
    st.tuples(st.just("call"), st.just("is_served"), st.booleans()),
    st.tuples(st.just("call"), st.just("is_served"), st.just(True)),
    st.tuples(st.just("batch")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("reply"), st.just("throttle_ms"), st.sampled_from([0, 0, 500])),
    st.tuples(st.just("lose")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("reach"), st.just("is_reachable"), st.booleans()),
    st.tuples(st.just("pause"), st.just("pause_ms"), st.sampled_from([1, 60, 1000])),
)


class TestRequests:
    """Of every client; an admin does nothing but these."""

    @given(st.lists(link_events, max_size=40))
    @settings(deadline=None, max_examples=examples(150))
    def test_no_request_waits_for_an_event_that_has_passed(self, script: Sequence[tuple[Any, ...]]) -> None:
        run(_play_link(script))

    def test_a_place_that_a_caller_cannot_use_goes_to_the_next(self) -> None:
        """The reply wakes one caller. If the broker does not serve its request, the place must not be lost."""
        served, other = ("call", "is_served", True), ("call", "is_served", False)
        run(_play_link([served, served, other, served, served, ("reply", "throttle_ms", 0)]))


async def _play_link(script: Sequence[tuple[Any, ...]]) -> None:
    world = link_world.World()
    for what, *arguments in script:
        await getattr(world, what)(**dict([arguments] if arguments else []))
        world.check()
    await world.close()


async def _play_producer(script: Sequence[tuple[Any, ...]], is_idempotent: bool, linger_ms: int) -> None:
    world = producer_world.World(
        2, batch_size=80, retry_backoff_ms=100, linger_ms=linger_ms, enable_idempotence=is_idempotent
    )
    for what, *arguments in script:
        if what == "refuse":
            world.refusals.append(arguments[0])
        elif what == "connect":
            await world.connect(is_connected=arguments[0])
        elif what == "lead":
            await world.lead(has_leader=arguments[0])
        else:
            await getattr(world, what)(*arguments)
        world.check_waits()
    await world.lead(has_leader=True)
    await world.connect(is_connected=True)
    await world.run_to_the_end()


async def _play_consumer(script: Sequence[tuple[Any, ...]]) -> None:
    world = consumer_world.World()
    engine = world.engine
    await world.call(lambda: engine.assign(consumer_world.PARTITIONS[:2]))
    world.check()
    for what, *arguments in script:
        if what == "assign":
            chosen = sorted(arguments[0])
            await world.call(lambda: engine.assign(chosen))  # noqa: B023 - called before the next turn
        elif what == "seek":
            partition, act = consumer_world.PARTITIONS[arguments[0]], consumer_world.SEEKS[arguments[1]]
            if partition in engine.subscription.partitions:
                await world.call(lambda: act(engine, partition))  # noqa: B023
        else:
            await getattr(world, what)(*arguments)
        world.check()
    await world.close()
