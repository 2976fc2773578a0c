import pytest

from tidelog.client.addresses import parse_bootstrap_servers
from tidelog.client.errors import ClientConfigError
from tidelog.client.types import BrokerNode


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("localhost", [("localhost", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:19092", [("::1", 19092)]),
        ("[::1]", [("::1", 9092)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
    ],
)
def test_addresses_are_read_as_kafkas_tools_read_them(text, expected):
    assert parse_bootstrap_servers(text) == expected


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:0", "a:65536", ":9092", "[::1:9092", "a:٣"])
def test_what_is_no_address_is_named_in_the_error(text):
    with pytest.raises(ClientConfigError, match=r"bootstrap\.servers") as caught:
        parse_bootstrap_servers(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_the_address_of_a_broker_is_one_that_a_client_takes(host):
    assert parse_bootstrap_servers(BrokerNode(1, host, 9092).address) == [(host, 9092)]
