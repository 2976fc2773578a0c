"""The straight way of an append beside the one that checks everything: same bytes stored, or both refuse.

`Log.append_as_leader` writes out the conditions of the usual batch, because calls would cost more than the checks do.
Batches here are right ones with some bytes of the header changed, with and without a right checksum, so that each
condition is met and missed.
"""

import tempfile

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.storage.logs import EPOCH, NOW_MS, batch
from tidelog.config import LogConfig
from tidelog.records.compression import Codec
from tidelog.records.errors import InvalidRecordError
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError

HEADER_FIELDS = {
    "base offset": slice(0, 8),
    "length": slice(8, 12),
    "leader epoch": slice(12, 16),
    "magic": slice(16, 17),
    "checksum": slice(17, 21),
    "attributes": slice(21, 23),
    "last offset delta": slice(23, 27),
    "max timestamp": slice(35, 43),
    "producer id": slice(43, 51),
    "producer epoch": slice(51, 53),
    "base sequence": slice(53, 57),
    "record count": slice(57, 61),
}
HOUR_MS = 3_600_000


@st.composite
def sent(draw: st.DrawFn) -> bytes:
    """A batch as a client might send it, good or not."""
    has_producer = draw(st.booleans())
    made = batch(
        *draw(st.lists(st.binary(max_size=30), min_size=1, max_size=4)),
        codec=draw(st.sampled_from(Codec)),
        producer_id=7 if has_producer else -1,
        is_transactional=has_producer and draw(st.booleans()),
    )
    for name in draw(st.lists(st.sampled_from(sorted(HEADER_FIELDS)), max_size=2)):
        place = HEADER_FIELDS[name]
        width = place.stop - place.start
        near = st.integers(min_value=-2, max_value=70)
        far = st.integers(min_value=-(1 << 8 * width - 1), max_value=(1 << 8 * width - 1) - 1)
        limits = st.just(NOW_MS + HOUR_MS + 1) if width == 8 else near
        made[place] = draw(near | far | limits).to_bytes(width, "big", signed=True)
    if draw(st.booleans()):
        made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made) + draw(st.sampled_from([b"", b"", b"\0"]))


def outcome(records: bytes, *, is_straight: bool) -> object:
    """What an empty log makes of `records`."""
    with tempfile.TemporaryDirectory() as directory:
        config = LogConfig(message_timestamp_after_max_ms=HOUR_MS, max_message_bytes=300)
        log = Log.create(f"{directory}/topic-0", "topic", 0, config, NOW_MS)
        view = memoryview(bytearray(records))
        try:
            if is_straight:
                info = log.append_as_leader(view, EPOCH, NOW_MS)
            else:
                info = log._appender.append_checked(view, EPOCH, NOW_MS, AppendOrigin.CLIENT)
        except (ApiError, InvalidRecordError) as error:
            return error.code
        finally:
            log.write_staged()
            end_offset = log.log_end_offset
            log.close()
        with open(f"{directory}/topic-0/00000000000000000000.log", "rb") as file:
            return info, end_offset, file.read()


@settings(deadline=None, max_examples=examples(150))
@given(sent())
def test_both_ways_store_the_same_bytes_or_refuse_alike(records: bytes) -> None:
    assert outcome(records, is_straight=True) == outcome(records, is_straight=False)
