from collections.abc import Callable, Sequence
from typing import Any

from tidelog.records.bulk import BulkRecord
from tidelog.records.compression import Buffer
from tidelog.records.usual import HeaderFields

VERSION: int

def scan(
    data: Buffer,
    position: int,
    index: int,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    max_timestamp: int,
    headers_max: int,
    /,
) -> tuple[int, int, int, int]: ...
def assemble(
    records: Sequence[BulkRecord],
    buffer_of: Callable[[int], bytearray],
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    crc32c: Callable[..., int],
    /,
) -> tuple[bytearray, int, int, bool] | None: ...
def read_usual(
    batch: Buffer,
    bytes_max: int,
    count_max: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    headers_max: int,
    crc32c: Callable[..., int],
    /,
) -> HeaderFields | None: ...
def read_rows(
    data: bytes,
    position: int,
    index: int,
    stop: int,
    base_offset: int,
    base_timestamp: int,
    topic: str,
    partition: int,
    timestamp_type: object,
    leader_epoch: int,
    row_class: type[tuple[Any, ...]],
    rows: list[Any],
    /,
) -> tuple[int, int]: ...
