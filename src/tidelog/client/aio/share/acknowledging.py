"""Acknowledgements as requests carry them: ranges of offsets, each with one type or one for each offset.

{5: accept, 6: accept, 7: reject, 9: release after 2 s}   ->   5-7 [1, 1, 3]   9-9 [2] after 2,000 ms
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tidelog.client.aio.share.types import Ack, AcknowledgeType

Batch = TypeVar("Batch")


class AckRange(NamedTuple):
    """Neighbouring offsets, whose delays are equal: the fields of an AcknowledgementBatch, which two requests have."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]
    delay_ms: int


def ranges_of(acks: Mapping[int, Ack]) -> list[AckRange]:
    """The acknowledgements in order, as few ranges as possible."""
    found: list[AckRange] = []
    kinds: list[int] = []
    for offset in sorted(acks):
        kind, delay_ms = acks[offset]
        if found and offset == found[-1].last_offset + 1 and delay_ms == found[-1].delay_ms:
            kinds.append(kind)
            found[-1] = found[-1]._replace(last_offset=offset)
        else:
            kinds = [kind]
            found.append(AckRange(offset, offset, kinds, delay_ms))
    return [each._replace(acknowledge_types=_shortest(each.acknowledge_types)) for each in found]


def _shortest(kinds: list[int]) -> list[int]:
    return kinds if len(set(kinds)) > 1 else kinds[:1]


def batches_of(acks: Mapping[int, Ack], make: Callable[..., Batch]) -> list[Batch]:
    """The same as structs of a request."""
    return [make(**found._asdict()) for found in ranges_of(acks)]


def has_renewal(acks: Iterable[Mapping[int, Ack]]) -> bool:
    """Whether a lock is to be renewed, which a request has to announce."""
    return any(ack.kind == AcknowledgeType.RENEW for each in acks for ack in each.values())
