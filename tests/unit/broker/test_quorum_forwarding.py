"""What a member of a KRaft cluster hands on to the active controller, and what its clients get back."""

from __future__ import annotations

import asyncio
import random

import pytest

from tidelog.broker.handlers import forwarded_handlers, handlers
from tidelog.broker.topology.controller_client import ControllerClient
from tidelog.broker.topology.quorum_forwarding import FORWARDED, Forwarding, encode_principal
from tidelog.network.session import Session
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.schema import Message

REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
CREATED = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", num_partitions=1)])


class Controller:
    """Answers envelopes with what it is given, one after the other."""

    def __init__(self, *answers: EnvelopeResponse) -> None:
        self.answers = list(answers)
        self.envelopes: list[EnvelopeRequest] = []

    async def send(self, _broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None) -> Message:
        assert (purpose, timeout_ms) == ("forwarding", None)
        assert isinstance(request, EnvelopeRequest)
        self.envelopes.append(request)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def session() -> Session:
    found = Session("PLAINTEXT", "SASL_PLAINTEXT", "10.0.0.7")
    found.principal, found.client_id = "User:alice", "client"
    return found


def forward(controller: Controller, timeout_ms: int = 30_000) -> Message:
    async def run() -> Message:
        client = ControllerClient(1, lambda: 3000, controller, random.Random(1))
        return await Forwarding(client, timeout_ms).forward(REQUEST, 7, session())

    return asyncio.run(run())


def answer(response: Message) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=encode_response(19, 7, 0, response.encode(7))[4:])


def test_a_request_is_handed_on_whole_with_its_clients_principal_and_address() -> None:
    controller = Controller(answer(CREATED))
    assert forward(controller) == CREATED
    (envelope,) = controller.envelopes
    header = parse_request_header(envelope.request_data)
    assert (header.api_key, header.api_version, header.client_id) == (19, 7, "client")
    assert CreateTopicsRequest.decode(envelope.request_data, 7, header.body_offset) == REQUEST
    assert envelope.client_host_address == bytes([10, 0, 0, 7])
    assert envelope.request_principal == encode_principal("User:alice")


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    # What DefaultKafkaPrincipalBuilder of Kafka 4.3.1 serialises for these.
    assert encode_principal("User:alice").hex() == "00000555736572" + "06616c696365" + "00" + "00"
    assert encode_principal("User:a:b", has_token=True).hex() == "00000555736572" + "04613a62" + "01" + "00"


def test_a_controller_that_is_no_longer_active_is_asked_no_more() -> None:
    controller = Controller(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER), answer(CREATED))
    assert forward(controller) == CREATED
    assert len(controller.envelopes) == 2


@pytest.mark.parametrize(
    ("theirs", "clients"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_envelope_fails_with_is_no_fault_of_the_client(theirs: ErrorCode, clients: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        forward(Controller(EnvelopeResponse(error_code=theirs)))
    assert refused.value.code is clients


def test_without_a_controller_a_request_times_out() -> None:
    with pytest.raises(ApiError) as refused:
        forward(Controller(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)), timeout_ms=50)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_every_forwarded_api_has_a_route_and_no_version_that_is_not_served_otherwise() -> None:
    routes, others = forwarded_handlers(FORWARDED), handlers()
    assert set(routes) == {int(key) for key in FORWARDED}
    for key, route in routes.items():
        if key in others:
            assert others[key].min_version <= route.min_version <= route.max_version <= others[key].max_version
