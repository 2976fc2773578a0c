"""Requests sent ahead have the effects and the answers of requests sent one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.broker.pipelines import Operation, Scope, ahead, begin, in_turn, operations
from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tidelog.broker.handlers import handlers

CarryOut = Callable[[RawClient, Scope, list[Operation]], list[Any]]
OPERATIONS = list(operations())
OBSERVED = [
    operation
    for operation in OPERATIONS
    if operation.label
    in {
        *("LIST_OFFSETS-0", "LIST_OFFSETS-1", "LIST_OFFSETS-2", "FETCH-1", "METADATA-0", "OFFSET_FETCH-0"),
        *("DESCRIBE_GROUPS-0", "DESCRIBE_CONFIGS-0", "DESCRIBE_TRANSACTIONS-0", "DESCRIBE_PRODUCERS-0"),
    }
]
"""What the state is seen by afterwards."""


class World:
    """A broker, a connection to it, and names that were not used yet."""

    def __init__(self, broker: Inside) -> None:
        self._broker = broker
        self._numbers = itertools.count(1_000_000)

    def check(self, pipeline: list[Operation]) -> None:
        """Carry the pipeline out in both ways, in scopes of the same state, and compare all that can be seen."""
        number = next(self._numbers)
        expected, found = (
            self._outcome(f"scope-{number}-{side}", carry_out, pipeline)
            for side, carry_out in (("a", in_turn), ("b", ahead))
        )
        assert found == expected, [operation.label for operation in pipeline]

    def _outcome(self, name: str, carry_out: CarryOut, pipeline: list[Operation]) -> tuple[list[Any], list[Any]]:
        with RawClient(self._broker.port) as observer:
            scope = begin(observer, name)
            with RawClient(self._broker.port) as client:
                return carry_out(client, scope, pipeline), in_turn(observer, scope, OBSERVED)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = {"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}
    with Inside(tmp_path_factory.mktemp("pipelines"), config) as broker:
        yield World(broker)


def test_every_api_has_an_operation() -> None:
    assert {int(operation.request_class.api_key) for operation in OPERATIONS} == set(handlers())


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pipeline=st.lists(st.sampled_from(OPERATIONS), min_size=2, max_size=3))
def test_sent_ahead_is_as_good_as_sent_one_by_one(world: World, pipeline: list[Operation]) -> None:
    world.check(pipeline)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", OPERATIONS, ids=lambda operation: operation.label)
def test_every_pair_sent_ahead_is_as_good_as_sent_one_by_one(world: World, first: Operation) -> None:
    for second in OPERATIONS:
        world.check([first, second])


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pipeline=st.lists(st.sampled_from(OPERATIONS), min_size=3, max_size=6))
def test_long_pipelines_are_as_good_as_requests_sent_one_by_one(world: World, pipeline: list[Operation]) -> None:
    world.check(pipeline)
