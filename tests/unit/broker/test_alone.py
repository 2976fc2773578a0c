"""A broker that is alone answers by itself what a member of a cluster asks its controller for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.steps import Pauses
from tidelog.broker.topology.alone import Alone, AlonePlan
from tidelog.broker.topology.plans import plan_of
from tidelog.controller.events import ElectionType
from tidelog.coordination import ProducerEpoch
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.tree import BrokerRegistration, Endpoint
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.partitions import TopicPartition

LED, LEADERLESS, MISSING = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def alone() -> Alone:
    image = ClusterImage("cluster")
    registration = BrokerRegistration(1, (Endpoint("PLAINTEXT", "localhost", 9092),))
    image.set_broker(BrokerImage.of(registration, 5))
    image.set_topic(
        TopicImage("t", bytes(16), [PartitionImage(0, 1, 0, (1,), (1,)), PartitionImage(1, -1, 0, (1,), (1,))])
    )
    base = SimpleNamespace(
        slices=Pauses(), background=None, log_manager=None, surroundings=SimpleNamespace(random=None), clock=None
    )
    parts = SimpleNamespace(
        broker_id=1, image=image, base=base, settings=None, metadata=None, replica_manager=None, topics=None
    )
    return Alone(cast(Any, parts))


def codes(outcomes: Any) -> dict[TopicPartition, ErrorCode]:
    return {key: ErrorCode.NONE if error is None else error.code for key, error in outcomes.items()}


@pytest.mark.parametrize(
    ("kind", "no_candidate"),
    [
        (ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (ElectionType.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_election_finds_a_leader_or_no_candidate(alone: Alone, kind: ElectionType, no_candidate: ErrorCode) -> None:
    outcomes = asyncio.run(alone.elect_leaders((LED, LEADERLESS, MISSING), kind, 0))
    assert codes(outcomes) == {
        LED: ErrorCode.ELECTION_NOT_NEEDED,
        LEADERLESS: no_candidate,
        MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((1,), ErrorCode.NONE),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_reassignment_is_confirmed_where_it_is_in_place(
    alone: Alone, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    assert codes(asyncio.run(alone.alter_reassignments({LED: target}))) == {LED: code}
    assert asyncio.run(alone.list_reassignments(None)) == {}


def test_a_marker_is_settled_only_for_a_partition_that_is_gone(alone: Alone) -> None:
    reported: list[ErrorCode] = []
    nothing: Any = None
    assert not alone.settle_marker(nothing, LED, reported.append)
    assert reported == []
    assert alone.settle_marker(nothing, MISSING, reported.append)
    assert reported == [ErrorCode.NONE]


def test_no_other_broker_verifies_a_transaction(alone: Alone) -> None:
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    alone.verify(2, "id", ProducerEpoch(1, 0), [LED], answers.append)
    assert answers == [{LED: ErrorCode.COORDINATOR_NOT_AVAILABLE}]


def test_it_is_its_own_controller_and_serves_no_other_broker(alone: Alone) -> None:
    assert alone.is_controller
    figures = alone.controller_figures()
    assert figures.is_active
    assert figures.cluster["globalpartitioncount"] == 2
    assert figures.cluster["offlinepartitionscount"] == 1
    assert AlonePlan.apis == frozenset()
    with pytest.raises(ApiError) as refused:
        asyncio.run(alone.serve_broker(AlterPartitionRequest(), 3))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("is_clustered", "kind"), [(False, "AlonePlan"), (True, "MemberPlan")])
def test_the_surroundings_decide_the_topology(is_clustered: bool, kind: str) -> None:
    surroundings: Any = SimpleNamespace(is_clustered=is_clustered)
    assert type(plan_of(surroundings)).__name__ == kind
