from tidelog.wire.offset_commit import CommitFields
from tidelog.wire.primitives import Buffer

VERSION: int

def decode_offset_commit(data: Buffer, position: int, end: int, version: int, /) -> CommitFields | None: ...
