"""DeleteTopics: delete topics by name or id.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   may fail with TOPIC_DELETION_DISABLED
    4   first flexible version
    5   adds error messages; may fail with THROTTLING_QUOTA_EXCEEDED (KIP-599)
    6   topics may be named by id; `topics` takes the place of `topic_names` (KIP-516)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string(None, null_since=0)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message, api_key=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible_from=4):
    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(null_since=6)
    topic_id: bytes = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(None, since=5, null_since=5)


class DeleteTopicsResponse(Message, api_key=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible_from=4):
    throttle_time_ms: int = int32(since=1)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
