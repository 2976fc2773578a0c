"""`tidelog consume --group`: read as a member of a group."""

import sys
import time
from collections.abc import Generator, Mapping
from typing import Any, Final

from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
from tidelog.client.consumer import Consumer

_POLL_S: Final = 0.25


def read_as_member(
    settings: Mapping[str, Any], topic: str, most: int | None, timeout_s: float | None
) -> Generator[list[ConsumerRecord], None, None]:
    """Yield the records of each poll, until `most` records or `timeout_s` without records. Commits at the end.

    If the caller closes it early, the last records are not committed and are read again.
    """
    with Consumer(settings) as consumer:
        if topic not in consumer.list_topics():
            sys.stderr.write(f"tidelog: topic {topic!r} does not exist yet; waiting for it\n")
        consumer.subscribe([topic])
        count = 0
        idle_since = time.monotonic()
        while True:
            records = consumer.poll(_POLL_S)
            if records:
                taken = list(records)[: None if most is None else most - count]
                count += len(taken)
                try:
                    yield taken
                except GeneratorExit:
                    _give_back(consumer, records, 0)
                    raise
                idle_since = time.monotonic()
                if count == most:
                    _give_back(consumer, records, len(taken))
                    return
            elif timeout_s is not None and time.monotonic() - idle_since >= timeout_s:
                return


def _give_back(consumer: Consumer, records: ConsumerRecords, taken: int) -> None:
    """Move the positions back, so that the group reads unused records again."""
    left = list(records)[taken:]
    for record in reversed(left):
        consumer.seek(record.topic_partition, record.offset)
