"""Whatever the network and the broker do, an idempotent producer stores each record once, in order, and says so.

Hypothesis plays network and broker: requests and replies are delivered, lost, delivered late; batches are refused for a
while or for good, before or after they were stored; the broker forgets the producer. Then everything heals.
"""

import asyncio
from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.property.client.producer_world import World
from tests.property.effort import examples
from tidelog.client.errors import DeadlinePassed
from tidelog.wire.errors import ErrorCode

PARTITIONS = 2

# What a batch may be answered though it was not stored, or (second) though it was.
REFUSALS = [
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
    (ErrorCode.NOT_ENOUGH_REPLICAS, False),
    (ErrorCode.CORRUPT_MESSAGE, False),
    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
    (ErrorCode.REQUEST_TIMED_OUT, True),
    (ErrorCode.REQUEST_TIMED_OUT, False),
    (ErrorCode.MESSAGE_TOO_LARGE, False),
    (ErrorCode.INVALID_RECORD, False),
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
]

steps = st.one_of(
    st.tuples(st.just("send"), st.integers(0, PARTITIONS - 1), st.integers(1, 4)),
    st.tuples(st.just("arrive"), st.just(0), st.integers(1, 3)),
    st.tuples(st.just("answer"), st.just(0), st.integers(1, 3)),
    st.tuples(st.just("refuse"), st.integers(0, len(REFUSALS) - 1), st.just(1)),
    st.tuples(st.just("wait"), st.sampled_from([1, 120, 1000, 40_000]), st.just(1)),
    st.tuples(st.just("lose"), st.just(0), st.just(1)),
    st.tuples(st.just("late"), st.just(0), st.just(1)),
)


async def play(script: Sequence[tuple[str, int, int]]) -> World:
    world = World(PARTITIONS, batch_size=80, retry_backoff_ms=100)
    number = 0
    for what, argument, times in script:
        for _ in range(times):
            if what == "send":
                number += 1
                await world.send(argument, str(number).encode())
            elif what == "arrive":
                await world.arrive()
            elif what == "answer":
                await world.answer()
            elif what == "refuse":
                world.refusals.append(REFUSALS[argument])
            elif what == "wait":
                await world.advance(argument)
            elif what == "lose":
                await world.lose_connection()
            else:
                world.arrive_late()
    await world.run_to_the_end()
    while world.zombies:
        world.arrive_late()
    return world


# The second record is stored and has to be sent again for its answer; then the third is refused for good and raises
# the epoch: in the new one the second would be stored once more.
STORED_BEFORE_A_GAP = [
    *[("send", 0, 2), ("arrive", 0, 1), ("send", 0, 1), ("answer", 0, 1)],
    *[("refuse", 3, 1), ("arrive", 0, 1), ("refuse", 6, 1), ("arrive", 0, 1)],
]


@given(st.lists(steps, max_size=60))
@example(STORED_BEFORE_A_GAP)
@settings(deadline=None, max_examples=examples(150))
def test_each_record_is_stored_once_in_order_or_reported_as_failed(script: Sequence[tuple[str, int, int]]) -> None:
    world = asyncio.run(play(script))
    for log, sent in zip(world.logs, world.sent, strict=True):
        assert len(set(log.values)) == len(log.values), "a record was stored twice"
        order = [value for value, _ in sent if value in log.values]
        assert log.values == order, "records were stored out of order"
        for value, delivery in sent:
            error = delivery.exception()
            if error is None:
                assert value in log.values, f"{value!r} was acknowledged and is not there"
                offset = delivery.result().offset
                assert offset in (-1, log.values.index(value))
            elif not isinstance(error, DeadlinePassed) and delivery.attempts == 1:
                # Of a batch that was sent again, an earlier attempt may have been stored without anybody knowing.
                assert value not in log.values, f"{value!r} was reported as refused ({error}) and is there"
    assert world.pool.free_bytes == world.pool.total_bytes, "memory was not given back"
