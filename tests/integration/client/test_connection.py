"""The connection against peers that follow a script, and against peers that are no broker at all."""

import socket

import pytest

from tests.integration.client.scripted_broker import ScriptedBroker, raw_server
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokerUnavailable, ConnectionLost, InvalidReply, UnsupportedByBroker
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
)
from tidelog.wire.messages.api_versions import ApiVersion
from tidelog.wire.messages.metadata import MetadataRequestTopic


def named(request):
    """The cluster is called what the first topic asked for is called, so that replies can be told apart."""
    return MetadataResponse(cluster_id=request.topics[0].name if request.topics else "none")


def ask(name):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def connect(broker, timeout_s=5.0):
    return Connection(broker.host, broker.port, timeout_s=timeout_s)


def test_the_highest_common_version_is_used():
    served = {ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 5)}
    with ScriptedBroker({MetadataRequest: named}, served) as broker, connect(broker) as connection:
        assert connection.send(ask("a"), MetadataResponse).cluster_id == "a"
        assert broker.seen[-1][0] == 5


def test_a_passing_reply_is_gone_with_the_next_and_others_stay():
    with ScriptedBroker({MetadataRequest: named}) as broker, connect(broker) as connection:
        for name in ("first", "second", "third"):
            connection.write(ask(name))
        _, kept, _ = connection.read_raw()
        _, passing, _ = connection.read_raw(is_passing=True)
        assert b"first" in bytes(kept)
        assert b"second" in bytes(passing)
        version, reply, body = connection.read_raw(is_passing=True)
        assert MetadataResponse.decode(reply, version, body).cluster_id == "third"
        assert b"second" not in bytes(passing)
        assert b"first" in bytes(kept)


def test_a_version_can_be_capped():
    with ScriptedBroker({MetadataRequest: named}) as broker, connect(broker) as connection:
        connection.send(ask("a"), MetadataResponse, at_most=8)
        assert broker.seen[-1][0] == 8


def test_negotiation_falls_back_when_the_broker_does_not_know_our_version():
    """Such a broker answers in version 0 with error 35 and its own range, on the same connection."""

    def old(request):
        keys = [
            ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2),
            ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=1),
        ]
        if broker.seen[-1][0] > 2:
            broker.refusals += 1
            return OldAnswer(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
        return ApiVersionsResponse(api_keys=keys)

    class OldAnswer(ApiVersionsResponse, api_key=18, versions=(0, 4), flexible_from=3):
        def encode(self, version):
            return ApiVersionsResponse(error_code=self.error_code, api_keys=self.api_keys).encode(0)

    with ScriptedBroker({ApiVersionsRequest: old, MetadataRequest: named}) as broker:
        broker.refusals = 0
        with connect(broker) as connection:
            assert connection.served[ApiKey.METADATA] == (0, 1)
            connection.send(ask("a"), MetadataResponse)
        assert [version for version, _ in broker.seen] == [4, 2, 1]
        assert (broker.refusals, broker.connections) == (1, 1)


def test_requests_may_be_pipelined_and_replies_come_in_order():
    with ScriptedBroker({MetadataRequest: named}) as broker, connect(broker) as connection:
        for name in "abc":
            connection.write(ask(name))
        assert connection.pending == 3
        assert [connection.read(MetadataResponse).cluster_id for _ in range(3)] == ["a", "b", "c"]
        assert connection.pending == 0


def test_an_api_that_is_not_served_is_named():
    served = {ApiKey.API_VERSIONS: (0, 4)}
    complaint = pytest.raises(UnsupportedByBroker, match=r"ListOffsets \(api key 2\)")
    with ScriptedBroker({}, served) as broker, connect(broker) as connection, complaint:
        connection.write(ListOffsetsRequest())


def test_no_common_version_tells_both_ranges():
    served = {ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (90, 99)}
    complaint = pytest.raises(UnsupportedByBroker, match=r"90-99.*0-1")
    with ScriptedBroker({}, served) as broker, connect(broker) as connection, complaint:
        connection.write(ask("a"))


def test_nobody_listening_names_address_and_setting():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(BrokerUnavailable, match=rf"127\.0\.0\.1:{port}.*refused.*--bootstrap-server"):
        Connection("127.0.0.1", port, timeout_s=5.0).open()


def test_a_hang_up_in_the_middle_of_a_request_is_a_lost_connection():
    with ScriptedBroker({MetadataRequest: lambda request: None}) as broker:
        connection = connect(broker)
        with pytest.raises(ConnectionLost, match="closed by the broker"):
            connection.send(ask("a"), MetadataResponse)
        assert not connection.is_open


def test_a_broker_that_says_nothing_runs_into_the_timeout():
    mute = raw_server(lambda peer: peer.recv(1 << 16) and peer.recv(1))
    with mute as (host, port), pytest.raises(ConnectionLost, match="timed out"):
        Connection(host, port, timeout_s=0.05).open()


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "1213486160 bytes; is that a Kafka listener"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "is that a Kafka listener"),
        (b"\x00\x00\x00\x02\x00\x00", "announced a reply of 2 bytes"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x63\x00\x00", "answered request 99, 1 was due"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "does not answer as a Kafka broker"),
        (b"\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\xff", "does not answer as a Kafka broker"),
    ],
)
def test_what_is_no_broker_is_told_as_such(said, complaint):
    def answer(peer):
        peer.recv(1 << 16)
        peer.sendall(said)

    with raw_server(answer) as (host, port):
        connection = Connection(host, port, timeout_s=5.0)
        with pytest.raises(InvalidReply, match=complaint):
            connection.open()
        assert not connection.is_open
