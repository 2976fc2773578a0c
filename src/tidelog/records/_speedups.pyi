from tidelog.records.compression import Buffer

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
