"""Topics that a request changed in a cluster, and that the cluster does not show as changed in time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.wire.messages.create_partitions import CreatePartitionsTopicResult
    from tidelog.wire.messages.create_topics import CreatableTopicResult
    from tidelog.wire.messages.delete_topics import DeletableTopicResult


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
