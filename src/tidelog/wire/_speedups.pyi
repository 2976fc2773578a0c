from tidelog.wire.offset_commit import CommitFields
from tidelog.wire.primitives import Buffer
from tidelog.wire.produce import ProduceSpans

VERSION: int

def decode_produce(
    data: Buffer, position: int, end: int, version: int, spans: type[ProduceSpans], /
) -> ProduceSpans | None: ...
def decode_offset_commit(data: Buffer, position: int, end: int, version: int, /) -> CommitFields | None: ...
