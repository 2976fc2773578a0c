"""Fetch: open the session, read what is there, answer now or when there is enough.

Every version takes the same steps; `wire.fetch` reads and writes requests for one partition faster. What was read
becomes a reply in `_fetch_replies`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._fetch_replies import Reading
from tidelog.broker.requests.routes import REQUEST_BYTES_MAX
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.replica_selection import ClientMetadata
from tidelog.replication.wide_fetch import PARTITIONS_AT_ONCE
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.fetch import TOPIC_IDS_FROM, FetchSpans, decode_request, encode_response

if TYPE_CHECKING:
    from tidelog.broker.security.access import Access
    from tidelog.broker.serving.node import Node
    from tidelog.network.connection import Slot
    from tidelog.network.session import Session
    from tidelog.replication.fetch_session import FetchContext

_WHOLE_BATCHES_FROM: Final = 3
_FOLLOWER_READS_FROM: Final = 11
_new = tuple.__new__


def handle_bytes(
    node: Node, slot: Slot, data: bytearray | memoryview, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """One request, from its bytes to a reply now or later."""
    if stop - position > REQUEST_BYTES_MAX:
        raise WireError(f"a Fetch of {stop - position} bytes is larger than {REQUEST_BYTES_MAX}")
    spans = decode_request(data, position, stop, version)
    context = node.fetch_sessions.open(
        spans, version >= TOPIC_IDS_FROM, node.image.topic_name, node.clock.monotonic_ms()
    )
    if context.error:
        slot.fill(encode_response(correlation_id, version, (), error_code=context.error))  # type: ignore[arg-type]
        return
    if node.access is not None:
        context = _only_allowed(node.access, slot.connection.session, context, spans.replica_id)
    wanted = context.wanted
    parameters = _parameters(node, slot, spans, version)
    reading: Reading = _new(Reading, (node, slot, context, parameters, version, correlation_id))
    if len(wanted) > PARTITIONS_AT_ONCE:
        from tidelog.broker.handlers._wide_fetch import WideReading

        WideReading(reading).begin()
        return
    replies = node.replica_manager.read_now(parameters, wanted)
    if replies is not None:
        reading.respond(replies)
        return
    waiting = node.replica_manager.wait_for_more(parameters, wanted, reading.respond, partial(slot.fail, "Fetch"))
    if waiting is not None:
        slot.park(waiting.force_complete)
        # The end of a turn sets the timer for the new deadline. A request that only waits must ask for one.
        node.socket_server.wake()


def _only_allowed(access: Access, session: Session, context: FetchContext, replica_id: int) -> FetchContext:
    """The same request, in which partitions that the client may not read are refused. A follower reads all or none."""
    if replica_id >= 0:
        if access.allows(session, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
            return context
        return context._replace(wanted=[_denied(entry) for entry in context.wanted])
    return context._replace(
        wanted=[
            entry
            if entry.topic is None or access.allows(session, AclOperation.READ, AclResourceType.TOPIC, entry.topic)
            else _denied(entry)
            for entry in context.wanted
        ]
    )


def _denied(entry: Wanted) -> Wanted:
    return entry._replace(topic=None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _parameters(node: Node, slot: Slot, spans: FetchSpans, version: int) -> FetchParameters:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = spans[:5]
    max_bytes = min(max_bytes, node.settings.config.fetch_max_bytes)
    if node.client_quotas.limits_fetch and replica_id < 0:
        max_bytes = node.client_quotas.fetch_bytes_max(slot.connection, max_bytes)
    is_first_whole = version >= _WHOLE_BATCHES_FROM
    is_leader_only = version < _FOLLOWER_READS_FROM or replica_id >= 0
    client = None
    if node.replica_manager.replica_selector is not None and not is_leader_only:
        client = ClientMetadata(spans.rack_id, slot.connection.session.listener)
    return _new(
        FetchParameters,
        (
            replica_id,
            max_wait_ms,
            min(min_bytes, max_bytes),
            max_bytes,
            isolation_level,
            is_first_whole,
            is_leader_only,
            client,
        ),
    )
