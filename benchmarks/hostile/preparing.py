"""What a broker has before it is attacked: a group with an offset for each of a thousand partitions."""

from __future__ import annotations

import socket
import time
from typing import Any

from benchmarks.admin import Admin, read_frame
from benchmarks.hostile.requests import GROUP
from tidelog.wire import messages
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

WIDE = "wide"
PARTITIONS = 1_000
_SECONDS_MAX = 120.0


def prepare(address: tuple[str, int], admin: Admin) -> None:
    """Make the topic and commit the offsets; a coordinator may take a while to be there."""
    admin.create(WIDE, PARTITIONS)
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0) for index in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=WIDE, partitions=partitions)]
    request = messages.OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=topics)
    deadline = time.monotonic() + _SECONDS_MAX
    with socket.create_connection(address, timeout=_SECONDS_MAX) as client:
        while True:
            _call(client, messages.FindCoordinatorRequest(coordinator_keys=[GROUP]), 4)
            response = _call(client, request, 8)
            if not any(each.error_code for topic in response.topics for each in topic.partitions):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"offsets of group {GROUP} were not committed within {_SECONDS_MAX:.0f} s")
            time.sleep(0.2)


def _call(client: socket.socket, request: Any, version: int) -> Any:
    client.sendall(encode_request(request.api_key, version, 1, "preparing", request.encode(version)))
    frame = read_frame(client)
    response = getattr(messages, type(request).__name__.replace("Request", "Response"))
    return response.decode(frame, version, response_body_offset(request.api_key, version, frame))
