"""Watches what the clients of a simulation believe.

newer metadata    the leader epoch that a client knows of a partition never falls while the topic has the same id; a
                  topic that was made again is known as the latest reply describes it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.client.aio import metadata
from tidelog.client.aio.metadata import TopicMetadata
from tidelog.testing.simulation.replacing import replaced
from tidelog.wire.messages.metadata import MetadataResponseTopic
from tidelog.wire.partitions import NO_EPOCH


@contextmanager
def watching_clients(violated: Callable[[str], None]) -> Iterator[None]:
    """Look at every reply to Metadata that a client takes over."""
    newer = metadata._newer

    def watched(known: TopicMetadata | None, response: MetadataResponseTopic, name: str) -> TopicMetadata:
        taken = newer(known, response, name)
        if known is not None and not taken.error_code and not known.error_code:
            for fault in _faults(known, response, taken):
                violated(f"newer metadata: a client {fault}")
        return taken

    with replaced(metadata, "_newer", watched):
        yield


def _faults(known: TopicMetadata, response: MetadataResponseTopic, taken: TopicMetadata) -> Iterator[str]:
    named = {each.partition_index: each for each in response.partitions}
    for before, after in zip(known.partitions, taken.partitions, strict=False):
        if known.topic_id == response.topic_id:
            if NO_EPOCH < after.leader_epoch < before.leader_epoch:
                yield (
                    f"goes back from leader epoch {before.leader_epoch} of {before.topic}-{before.partition} to "
                    f"{after.leader_epoch}"
                )
        elif after.partition in named and after.leader_epoch != named[after.partition].leader_epoch:
            yield (
                f"believes leader epoch {after.leader_epoch} of {after.topic}-{after.partition} of a topic that was "
                f"made again, in epoch {named[after.partition].leader_epoch}"
            )
