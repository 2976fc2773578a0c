"""What the handlers of requests that create, extend and delete topics share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.broker.topology.internal_topics import automatic_topic
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.wire.messages.create_partitions import CreatePartitionsTopicResult
    from tidelog.wire.messages.create_topics import CreatableTopicResult
    from tidelog.wire.messages.delete_topics import DeletableTopicResult

NEW_PARTITIONS_MAX: Final = 10_000
"""Of one request: each takes a directory and its files. Kafka's limit and words are those of its KRaft controller; in
ZooKeeper mode one request could ask for billions."""
COUNTED_AT_ONCE: Final = 100
"""Topics of a request that are counted in one step, before any of them is changed."""


def partition_limit_error(new_partitions: int) -> ApiError | None:
    """The error for every topic of a request that asks for so many new partitions, None if it may."""
    if new_partitions <= NEW_PARTITIONS_MAX:
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"Excessively large number of partitions per request: more than {NEW_PARTITIONS_MAX}.",
    )


async def refuse_late(
    results: Sequence[CreatableTopicResult | CreatePartitionsTopicResult | DeletableTopicResult],
    late: Collection[str],
    context: Context,
) -> None:
    """Answer with REQUEST_TIMED_OUT for these topics. The change itself stands, and will be carried out."""
    names = set(late)
    for result in results if names else ():
        if result.error_code == ErrorCode.NONE and result.name in names:
            result.error_code, result.error_message = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.text
        await context.node.slices.pause()


async def create_automatically(name: str, context: Context) -> None:
    """Create the topic unless it exists. Raises ApiError. In a cluster it has no leaders yet.

    Its partitions count against the client's `controller_mutation_rate`, but are never refused: as in Kafka, clients
    need not know the error of that quota in a response to Metadata or FindCoordinator.
    """
    node = context.node
    context.mutation_quota().take(automatic_topic(name, node.config).partition_count)
    await node.topology.topics.create_automatically(name)
