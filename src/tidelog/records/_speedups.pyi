from tidelog.records.compression import Buffer

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
    /,
) -> tuple[int, int, int, int]: ...
