"""The log of one partition.

`Log` is the public class. It consists of objects that each own their fields:

    Positions   where the log begins and ends, the high watermark, the last stable offset
    Staging     batches that wait for the next write to the active segment
    Appender    checks batches, gives them offsets, rolls segments
    Lookup      finds the position of an offset or a timestamp in a file
    FlushState  what is on disk, and what the next flush must sync
    Segments    the segments in order
"""

from tidelog.storage.log._flushing import FlushJob
from tidelog.storage.log._log import Log
from tidelog.storage.log._positions import Positions
from tidelog.storage.log._segments import OnFilesDeleted

__all__ = ["FlushJob", "Log", "OnFilesDeleted", "Positions"]
