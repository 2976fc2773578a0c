"""How long the controller's requests take while clients keep a broker busy: LeaderAndIsr and UpdateMetadata in turn.

The broker is a member of a cluster. What is sent to it carries an old epoch of the controller, so that it is read,
decided on and answered, and changes nothing. The load is a process with 200 connections, each with one request of 16 KB
on its way: every turn of the broker's loop finds a hundred of them readable.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks import frames, load
from benchmarks.admin import Admin, open_socket, read_frame
from benchmarks.cases import ACKS_LEADER, Figures
from benchmarks.lab import Bench, reply_size
from tidelog.testing.cluster import Cluster
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest
from tidelog.wire.schema import Message

TOPIC: Final = "busy"
CONNECTIONS: Final = 200
PARTITIONS: Final = 16
_BATCH_BYTES: Final = 16_000
_RECORD_BYTES: Final = 100
_PAUSE_SECONDS: Final = 0.005
_WARM_UP_SECONDS: Final = 1.0


def control_plane(bench: Bench) -> Figures:
    """Round trips in milliseconds: idle, and under load."""
    with Cluster(1, {"default.replication.factor": 1, "min.insync.replicas": 1}) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        address = host, int(port)
        with Admin.connect(address) as admin:
            admin.create(TOPIC, PARTITIONS)
            admin.wait_until_led(TOPIC)
        idle = _rounds(address, bench.seconds / 2)
        seconds = bench.seconds + 2 * _WARM_UP_SECONDS
        loading = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.control_plane", json.dumps([*address, seconds])], stdout=subprocess.PIPE
        )
        time.sleep(_WARM_UP_SECONDS)
        busy = _rounds(address, bench.seconds)
        rate = float(loading.communicate(timeout=120)[0])
    return {
        "idle": _percentile(idle, 0.99),
        "median": _percentile(busy, 0.5),
        "p99": _percentile(busy, 0.99),
        "rate": rate,
    }


def _percentile(rounds: Sequence[float], share: float) -> float:
    return sorted(rounds)[int(len(rounds) * share)]


def _rounds(address: tuple[str, int], seconds: float) -> list[float]:
    """How long rounds took, in milliseconds, one every few of them."""
    requests = [
        _framed(LeaderAndIsrRequest(controller_id=1, controller_epoch=0, broker_epoch=-1, type=0)),
        _framed(UpdateMetadataRequest(controller_id=1, controller_epoch=0, broker_epoch=-1)),
    ]
    rounds = []
    with open_socket(address) as sock:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            for request in requests:
                sock.sendall(request)
                read_frame(sock)
            rounds.append((time.perf_counter() - began) * 1000 / len(requests))
            time.sleep(_PAUSE_SECONDS)
    return rounds


def _framed(request: Message) -> bytes:
    version = request.versions[1]
    body = request.encode(version)
    header = request.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def _load(host: str, port: int, seconds: float) -> float:
    batch = frames.batch_of_bytes(_BATCH_BYTES, _RECORD_BYTES)
    requests = [frames.produce(TOPIC, each % PARTITIONS, batch, ACKS_LEADER) for each in range(CONNECTIONS)]
    with ExitStack() as stack:
        sockets = [stack.enter_context(open_socket((host, port))) for _ in range(CONNECTIONS)]
        sample = load.many_connections(sockets, requests, reply_size(sockets[0], requests[0]), seconds)
    return sample.requests_per_second


if __name__ == "__main__":
    print(_load(*json.loads(sys.argv[1])))
