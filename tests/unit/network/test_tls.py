"""`TlsTransport` over a socket that takes and gives a few bytes at a time."""

import os
import random
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidelog.network.tls import PIECE_BYTES, TlsStream, TlsTransport
from tidelog.security.authority import Authority
from tidelog.security.tls import TlsOptions, client_context, server_context

NOW = datetime.now(UTC)
AUTHORITY = Authority("authority", NOW, 2)
SERVER = server_context(TlsOptions(key_store=AUTHORITY.issue("broker", NOW, 2, ["localhost"]).pem.encode()))
CLIENT = client_context(TlsOptions(trust_store=AUTHORITY.certificate_pem.encode()))


class Pipe:
    """What a socket is to a transport, with room for so many bytes in each direction."""

    holds_bytes = False
    is_plain = True

    def __init__(self) -> None:
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.room = 1 << 30
        self.is_ended = False
        self.is_closed = False
        self.recv_into: Callable[[bytearray | memoryview], int] = self._recv_into
        self.send: Callable[[bytes | memoryview], int] = self._send
        self.sendmsg: Callable[[Iterable[bytes | memoryview], tuple[()], int], int] = self._sendmsg

    def _recv_into(self, buffer: bytearray | memoryview) -> int:
        count = min(len(buffer), len(self.to_server))
        if not count and not self.is_ended:
            raise BlockingIOError
        memoryview(buffer)[:count] = self.to_server[:count]
        del self.to_server[:count]
        return count

    def _send(self, data: bytes | memoryview) -> int:
        count = min(len(data), self.room - len(self.to_client))
        if count <= 0:
            raise BlockingIOError
        self.to_client += data[:count]
        return count

    def _sendmsg(self, buffers: Iterable[bytes | memoryview], _ancillary: tuple[()] = (), _flags: int = 0) -> int:
        raise AssertionError("TLS sends what it has encrypted")

    def sendfile(self, fd: int, position: int, count: int) -> int:
        raise AssertionError("a file cannot be sent past the encryption")

    def cork(self, is_corked: bool) -> None:
        raise AssertionError("records are filled before they are sent")

    def fileno(self) -> int:
        return 7

    def close(self) -> None:
        self.is_closed = True


class Peer:
    """The client's end."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = CLIENT.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def write(self, data: bytes) -> None:
        self.object.write(data)
        self.pipe.to_server += self.outgoing.read()

    def read(self) -> bytes:
        self.incoming.write(bytes(self.pipe.to_client))
        self.pipe.to_client.clear()
        found = bytearray()
        while True:
            try:
                piece = self.object.read(1 << 16)
            except ssl.SSLWantReadError:
                return bytes(found)
            if not piece:
                return bytes(found)
            found += piece


def connected() -> tuple[Pipe, TlsTransport, Peer]:
    pipe = Pipe()
    stream, peer = TlsStream(SERVER, pipe, bytearray(1 << 16)), Peer(pipe)
    for _ in range(4):
        for end in (peer.object, stream.object):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            pipe.to_server += peer.outgoing.read()
            stream.flush()
            if pipe.to_server:
                stream.receive()
            peer.incoming.write(bytes(pipe.to_client))
            pipe.to_client.clear()
    return pipe, TlsTransport(stream), peer


def read_all(transport: TlsTransport, size: int) -> bytes:
    found, buffer = bytearray(), bytearray(size)
    while True:
        try:
            count = transport.recv_into(buffer)
        except BlockingIOError:
            return bytes(found)
        if not count:
            return bytes(found)
        found += buffer[:count]


@pytest.mark.parametrize("size", [1, 100, 16384, 1 << 20])
def test_what_a_peer_writes_is_read_whatever_the_size_of_the_buffer(size: int) -> None:
    _, transport, peer = connected()
    data = random.Random(1).randbytes(50_000)
    peer.write(data)
    assert read_all(transport, size) == data


def test_bytes_left_over_by_a_small_buffer_are_announced() -> None:
    """The system has delivered them already and reports nothing more."""
    _, transport, peer = connected()
    left: list[bool] = []
    transport.on_left = lambda: left.append(True)
    peer.write(b"x" * 100)
    assert transport.recv_into(bytearray(60)) == 60
    assert transport.holds_bytes
    assert left == [True]
    assert transport.recv_into(bytearray(60)) == 40
    assert not transport.holds_bytes
    assert left == [True]


def test_half_a_record_is_waited_for() -> None:
    pipe, transport, peer = connected()
    peer.write(b"x" * 1000)
    whole = bytes(pipe.to_server)
    pipe.to_server[:] = whole[:500]
    with pytest.raises(BlockingIOError):
        transport.recv_into(bytearray(100))
    assert not transport.holds_bytes, "or the connection would be read again and again"
    pipe.to_server += whole[500:]
    assert read_all(transport, 300) == b"x" * 1000


def test_the_end_of_the_stream_is_read_as_such_with_and_without_an_alert() -> None:
    pipe, transport, peer = connected()
    pipe.is_ended = True
    assert transport.recv_into(bytearray(10)) == 0
    pipe, transport, peer = connected()
    with pytest.raises(ssl.SSLWantReadError):
        peer.object.unwrap()
    pipe.to_server += peer.outgoing.read()
    assert transport.recv_into(bytearray(10)) == 0


def test_forged_bytes_end_the_connection() -> None:
    pipe, transport, peer = connected()
    peer.write(b"x" * 100)
    pipe.to_server[50] ^= 1
    with pytest.raises(ConnectionAbortedError):
        transport.recv_into(bytearray(1000))


@pytest.mark.parametrize("seed", range(20))
def test_a_full_socket_loses_and_repeats_nothing(seed: int) -> None:
    """The caller offers what was not reported as sent once more, cut otherwise, as `SendQueue` does."""
    chance = random.Random(seed)
    pipe, transport, peer = connected()
    data = chance.randbytes(300_000)
    received, sent = bytearray(), 0
    while sent < len(data):
        pipe.room = len(pipe.to_client) + chance.choice((0, 1, 1000, 20_000, 100_000))
        offered = memoryview(data)[sent : sent + chance.choice((1, 100, 70_000, 300_000))]
        try:
            if chance.random() < 0.5:
                sent += transport.send(offered)
            else:
                cut = chance.randrange(len(offered) + 1)
                sent += transport.sendmsg([offered[:cut], b"", offered[cut:]])
        except BlockingIOError:
            if chance.random() < 0.5:
                received += peer.read()
        assert len(pipe.to_client) <= len(data) + (1 << 17)
    pipe.room = 1 << 30
    while len(received) < len(data):
        received += peer.read()
    assert received == data


def test_at_most_one_piece_is_held_for_a_peer_that_does_not_read() -> None:
    pipe, transport, _ = connected()
    pipe.room = 0
    with pytest.raises(BlockingIOError):
        transport.send(bytes(10 << 20))
    assert transport._stream.unsent_bytes < PIECE_BYTES + 1000


def test_slices_of_a_file_are_read_and_encrypted(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(200_000)
    path = tmp_path / "segment"
    path.write_bytes(data)
    _, transport, peer = connected()
    fd = os.open(path, os.O_RDONLY)
    try:
        position, received = 1000, b""
        while position < 150_000:
            position += transport.sendfile(fd, position, 150_000 - position)
            received += peer.read()
        assert received == data[1000:150_000]
        assert transport.sendfile(fd, len(data), 10) == 0
    finally:
        os.close(fd)


def test_closing_says_so_to_the_peer() -> None:
    pipe, transport, peer = connected()
    transport.close()
    assert pipe.is_closed
    assert peer.read() == b""
    assert peer.object.pending() == 0


def test_a_peer_that_asks_for_new_keys_and_reads_nothing_is_ended() -> None:
    """Each key update is answered; the answers must not fill the memory."""
    pipe, transport, peer = connected()
    pipe.room = 0
    transport._stream.outgoing.write(bytes(1 << 19))
    peer.write(b"x")
    with pytest.raises(ConnectionAbortedError, match="reads nothing"):
        transport.recv_into(bytearray(10))
