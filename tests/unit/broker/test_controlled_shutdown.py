"""A broker that stops asks the controller to move its leaderships, again and again but not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.broker.topology.controlled_shutdown import hand_leaderships_over
from tidelog.broker.topology.controller_client import ControllerUnavailable
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from tidelog.wire.schema import Message

DONE = ControlledShutdownResponse()
LEFT = ControlledShutdownResponse(remaining_partitions=[RemainingPartition(topic_name="orders")])
REFUSED = ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


class Scripted:
    """A controller that answers one request after the other as the test says."""

    def __init__(self, *answers: ControlledShutdownResponse | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    async def send(self, request: Message, *, timeout_ms: int | None = None) -> Message:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "has_peers", "outcome", "asked"),
    [
        ([DONE], True, True, 1),
        ([LEFT, DONE], True, True, 2),
        ([ControllerUnavailable("moving"), LEFT, DONE], True, True, 3),
        ([LEFT, REFUSED, LEFT], True, False, 3),
        ([LEFT], False, False, 1),
    ],
)
def test_the_controller_is_asked_until_nothing_is_left_to_move(
    answers: list[Any], has_peers: bool, outcome: bool, asked: int
) -> None:
    controller = Scripted(*answers)
    work = hand_leaderships_over(
        controller,  # type: ignore[arg-type]
        3,
        77,
        has_peers=lambda: has_peers,
        attempts=3,
        pause_ms=0,
        timeout_ms=1000,
    )
    assert asyncio.run(work) is outcome
    assert [(each.broker_id, each.broker_epoch) for each in controller.requests] == [(3, 77)] * asked
