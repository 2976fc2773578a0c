"""Records for clients from before batches of magic 2: converted down, whole batches only. Called by `fetch`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.records.legacy import convert_down

if TYPE_CHECKING:
    from tidelog.storage._files import FileSlice

_MAGIC_1_FROM = 2


def readable_by(records: FileSlice, version: int) -> bytes:
    """The same records as messages of magic 0 (versions 0 and 1) or 1 (versions 2 and 3)."""
    data = os.pread(records.fd, records.length, records.position)
    return convert_down(data, 1 if version >= _MAGIC_1_FROM else 0)
