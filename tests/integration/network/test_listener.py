"""What a listener sets on the sockets that it accepts, and whom it says they belong to."""

from __future__ import annotations

import os
import select
import socket

import pytest

from tidelog.network.limits import NetworkLimits
from tidelog.network.listener import listen_tcp

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="only Linux lets a socket choose")
WAIT_SECONDS = 60


@pytest.mark.parametrize(("host", "peer"), [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::", "::1")])
def test_a_client_on_this_machine_is_not_paced_and_has_its_own_address(host: str, peer: str) -> None:
    """BBR, where it is the system's choice, would spread the segments of large replies over time.

    A socket for both families shows 127.0.0.1 as ::ffff:127.0.0.1, which no ACL and no limit is written for.
    """
    if ":" in host and not socket.has_ipv6:
        pytest.skip("without IPv6")
    limits = NetworkLimits()
    try:
        listener = listen_tcp(host, 0, limits)
    except OSError as cause:
        pytest.skip(f"cannot listen on {host}: {cause}")
    with socket.create_connection((peer, listener.port), WAIT_SECONDS):
        assert select.select([listener.fileno()], [], [], WAIT_SECONDS)[0]
        transport, address = listener.accept(limits)
        with socket.socket(fileno=os.dup(transport.fileno())) as same:
            chosen = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        transport.close()
    listener.close()
    assert address == peer
    assert chosen.rstrip(b"\0") == b"reno"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="without IPv6")
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
def test_an_empty_host_takes_clients_of_ipv4_and_ipv6_each_by_its_own_address(peer: str) -> None:
    limits = NetworkLimits()
    listener = listen_tcp("", 0, limits)
    try:
        with socket.create_connection((peer, listener.port), WAIT_SECONDS):
            assert select.select([listener.fileno()], [], [], WAIT_SECONDS)[0]
            transport, address = listener.accept(limits)
            transport.close()
    finally:
        listener.close()
    assert address == peer
