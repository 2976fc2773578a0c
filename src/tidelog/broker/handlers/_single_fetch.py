"""Fetch of one partition that has records to give: what nearly every consumer sends, without a detour.

Called by `fetch` first, for the versions with topic ids. It is taken when a request names one partition and nothing
else, comes without a session or is the next one of a session that holds this partition alone, and can be answered at
once with records. All else (errors, followers, waiting, forgotten partitions) is left to the long way. Nothing has
happened by then; and what is answered here the long way would answer with the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.replication.partition import READ_COMMITTED
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError
from tidelog.wire.fetch import decode_single, encode_single

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.replication.fetch_session import FetchSession


def handle_single(
    node: Node, slot: Slot, data: bytearray, position: int, stop: int, version: int, correlation_id: int
) -> bool:
    """Answer the request; False when it is not of this kind."""
    single = decode_single(data, position, stop, version)
    if single is None:
        return False
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_id, fetch = single
    index, offset, partition_bytes_max, leader_epoch, _, _ = fetch
    partition = node.replica_manager.find(node.image.topic_name(topic_id), index)
    if (
        partition is None
        or partition.topic_id != topic_id
        or not partition.is_leader
        or (leader_epoch != -1 and leader_epoch != partition.leader_epoch)
    ):
        return False
    sessions = node.fetch_sessions
    session: FetchSession | None = None
    if session_id or session_epoch != -1:
        session = sessions.find_single(session_id, session_epoch, topic_id, index)
        if session is None:
            return False
    log = partition.log
    high_watermark, stable_offset, start_offset = log.high_watermark, log.last_stable_offset, log.log_start_offset
    end_offset = stable_offset if isolation_level == READ_COMMITTED else high_watermark
    if not start_offset <= offset < end_offset:
        return False
    max_bytes = min(max_bytes, node.config.fetch_max_bytes)
    try:
        read = log.read(offset, min(max_bytes, partition_bytes_max), end_offset, True)
    except (ApiError, LogDirFailure):
        return False
    records = read.slice
    if records is None or (records.length < min(min_bytes, max_bytes) and max_wait_ms > 0):
        return False
    aborted = None
    if isolation_level == READ_COMMITTED:
        found = log.aborted_transactions(offset, log.read_end_offset(read))
        aborted = [(entry.producer_id, entry.first_offset) for entry in found]
    if session is not None:
        sessions.answer_single(session, fetch, high_watermark, start_offset, node.clock.monotonic_ms())
    offsets = (high_watermark, stable_offset, start_offset)
    slot.fill(encode_single(correlation_id, session_id, topic_id, index, offsets, aborted, records))  # type: ignore[arg-type]
    return True
