"""Requests to the controller find it wherever it is, and wait where there is none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tidelog.broker.topology.channels import BrokerUnreachable
from tidelog.broker.topology.controller_client import ControllerClient, ControllerUnavailable
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import Message

ASK = AllocateProducerIdsRequest(broker_id=1)
GRANTED = AllocateProducerIdsResponse(producer_id_start=1000)
NOT_CONTROLLER = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Cluster:
    """Which broker is controller after how many requests, and what brokers answer."""

    def __init__(self, *controllers: int, answers: dict[int, Message | None]) -> None:
        self.controllers = list(controllers)
        self.answers = answers
        self.asked: list[int] = []

    def controller_id(self) -> int:
        return self.controllers.pop(0) if len(self.controllers) > 1 else self.controllers[0]

    async def send(self, broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None) -> Message:
        self.asked.append(broker_id)
        answer = self.answers[broker_id]
        if answer is None:
            raise BrokerUnreachable(broker_id, "it is down")
        return answer


def ask(
    cluster: Cluster, request: Message = ASK, timeout_ms: int | None = None, local: Callable | None = None
) -> Message:  # type: ignore[type-arg]
    async def main() -> Message:
        client = ControllerClient(1, cluster.controller_id, cluster, random.Random(1), local)
        return await client.send(request, timeout_ms=timeout_ms)

    return asyncio.run(main())


def test_a_request_follows_a_controller_that_moves() -> None:
    cluster = Cluster(2, 2, 3, answers={2: NOT_CONTROLLER, 3: GRANTED})
    assert ask(cluster) == GRANTED
    assert cluster.asked == [2, 2, 3]


def test_an_unknown_or_dead_controller_is_waited_for() -> None:
    cluster = Cluster(-1, 2, 3, answers={2: None, 3: GRANTED})
    assert ask(cluster) == GRANTED
    assert cluster.asked == [2, 3]


def test_other_errors_are_answers() -> None:
    refused = AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert ask(Cluster(2, answers={2: refused})) == refused


def test_not_controller_may_be_said_of_each_part() -> None:
    refused = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)])
    done = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    assert ask(Cluster(2, 3, answers={2: refused, 3: done}), CreateTopicsRequest()) == done


def test_a_broker_that_is_controller_asks_itself() -> None:
    async def local(_request: Message) -> Message:
        return GRANTED

    cluster = Cluster(1, answers={})
    assert ask(cluster, local=local) == GRANTED
    assert cluster.asked == []


def test_without_a_controller_the_time_runs_out() -> None:
    with pytest.raises(ControllerUnavailable, match="AllocateProducerIds"):
        ask(Cluster(-1, answers={}), timeout_ms=1)
