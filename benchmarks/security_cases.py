"""What TLS, logins and ACLs cost: `SECURITY_CASES`, run by `python -m benchmarks security` on secured brokers."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from benchmarks import frames, load, security_load
from benchmarks.admin import open_socket
from benchmarks.cases import (
    ACKS_LEADER,
    RECORD_BYTES,
    SMALL_RECORD,
    Better,
    Case,
    Figure,
    Figures,
    fetches,
    times_kafka,
)
from benchmarks.lab import Bench, reply_size
from benchmarks.processes import HOST
from benchmarks.secured_brokers import add_user, client_context, ports_of
from tidelog.client.admin import Admin
from tidelog.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

ACLS: Final = 1_000
_SLICE_BYTES: Final = 256 << 20


@contextmanager
def _over_tls(bench: Bench) -> Iterator[ssl.SSLSocket]:
    with (
        open_socket((HOST, ports_of(bench.broker).tls)) as plain,
        client_context().wrap_socket(plain) as secure,
    ):
        yield secure


def tls_batches(batch_bytes: int) -> Callable[[Bench], Figures]:
    """Batches of 1 KB records, one at a time, encrypted."""

    def run(bench: Bench) -> Figures:
        records = frames.batch_of_bytes(batch_bytes, RECORD_BYTES)
        with bench.topic() as topic, _over_tls(bench) as sock:
            frame = frames.produce(topic.name, 0, records)
            reply_bytes = reply_size(sock, frame)
            bench.claim_memory(_SLICE_BYTES)
            requests_max = _SLICE_BYTES // batch_bytes
            sample, sent = bench.measure(
                lambda seconds: load.one_at_a_time(sock, [frame], reply_bytes, seconds, requests_max)
            )
            topic.require_records((sent + 1) * (batch_bytes // RECORD_BYTES))
        return {"throughput": sample.requests * len(records) / sample.seconds / 1e6}

    return run


def tls_fetches(fetch_bytes: int) -> Callable[[Bench], Figures]:
    """Read a log from the page cache in turns of `fetch_bytes`, encrypted."""
    return fetches(fetch_bytes, connect=_over_tls, flags=0)


def handshakes(bench: Bench) -> Figures:
    """Connections with a whole TLS handshake and one answered request each."""
    address, context = (HOST, ports_of(bench.broker).tls), client_context()
    sample, _ = bench.measure(
        lambda seconds: security_load.again_and_again(lambda: security_load.handshake(address, context), seconds)
    )
    return {"rate": sample.requests_per_second}


def logins(bench: Bench) -> Figures:
    """Connections that log in with SCRAM-SHA-256."""
    add_user(bench.broker)
    address = (HOST, ports_of(bench.broker).scram)
    client = security_load.ScramLogin(security_load.salt_of(address))
    sample, _ = bench.measure(lambda seconds: security_load.again_and_again(lambda: client.login(address), seconds))
    return {"rate": sample.requests_per_second}


def acls(bench: Bench) -> Figures:
    """Single records under 1,000 ACLs, a tenth of them on the topic itself; and what they add to a request."""
    with bench.topic() as topic, bench.connections(1) as (sock,):
        frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]), ACKS_LEADER)
        reply_bytes = reply_size(sock, frame)

        def measure() -> load.Sample:
            sample, _ = bench.measure(lambda seconds: load.one_at_a_time(sock, [frame], reply_bytes, seconds))
            return sample

        before = measure()
        with Admin(bootstrap_servers=bench.broker.bootstrap_servers) as admin:
            admin.create_acls(bindings(topic.name))
            try:
                after = measure()
            finally:
                admin.delete_acls([AclBindingFilter()])
    added_us = 1e6 / after.requests_per_second - 1e6 / before.requests_per_second
    return {"rate": after.requests_per_second, "added": max(added_us, 0.0)}


def bindings(topic: str) -> list[AclBinding]:
    """What lets everyone do everything comes first, so that the load may go on while the rest is made."""

    def binding(kind: AclResourceType, name: str, pattern: PatternType, principal: str) -> AclBinding:
        entry = AccessControlEntry(principal, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        return AclBinding(ResourcePattern(kind, name, pattern), entry)

    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    made = [
        binding(AclResourceType.TOPIC, "*", literal, "User:ANONYMOUS"),
        binding(AclResourceType.CLUSTER, "kafka-cluster", literal, "User:ANONYMOUS"),
    ]
    made += [binding(AclResourceType.TOPIC, topic, literal, f"User:u{number}") for number in range(ACLS // 10)]
    made += [
        binding(AclResourceType.TOPIC, topic[: 1 + number % 5], prefixed, f"User:p{number}") for number in range(100)
    ]
    made += [binding(AclResourceType.TOPIC, f"other-{number}", literal, "User:x") for number in range(ACLS - len(made))]
    return made


def _throughput(title: str) -> tuple[Figure, ...]:
    return (Figure("throughput", title, "MB/s", Better.HIGHER, times_kafka(1)),)


SECURITY_CASES: Final[Mapping[str, Case]] = {
    case.name: case
    for case in (
        Case("tls-batch-100k", tls_batches(100 << 10), _throughput("100 KB batches over TLS")),
        Case("tls-batch-1m", tls_batches(1 << 20), _throughput("1 MB batches over TLS")),
        Case("tls-fetch-100k", tls_fetches(100 << 10), _throughput("fetch 100 KB over TLS")),
        Case("tls-fetch-1m", tls_fetches(1 << 20), _throughput("fetch 1 MB over TLS")),
        Case(
            "handshakes",
            handshakes,
            (Figure("rate", "TLS handshakes, 4 clients", "a second", Better.HIGHER, times_kafka(1)),),
        ),
        Case(
            "scram-logins",
            logins,
            (Figure("rate", "SCRAM-SHA-256 logins, 4 clients", "a second", Better.HIGHER, times_kafka(1)),),
        ),
        Case(
            "acls-1000",
            acls,
            (
                Figure("rate", "single 100 B record, acks=1, under 1,000 ACLs", "requests/s", aim=times_kafka(1)),
                Figure("added", "what 1,000 ACLs add to it", "µs", Better.LOWER),
            ),
        ),
    )
}
