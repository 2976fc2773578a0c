"""One segment of a log: a file of record batches and the sparse indexes over it.

Segment            the files of a segment and its state
batches            walking a file of batches by their headers
offset_index       maps an offset to a position, memory-mapped
time_index         maps a timestamp to an offset, memory-mapped
transaction_index  the aborted transactions of a segment
"""

from tidelog.storage.segment._segment import NEVER, Segment, segment_ms

__all__ = ["NEVER", "Segment", "segment_ms"]
