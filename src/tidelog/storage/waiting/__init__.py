"""The waiting records of one partition, in the order of their delivery.

    runs     sorted files of entries, which never change
    index    all entries of a partition: the newest in memory, the rest in runs
    files    the checkpoint that names the runs and how far the log is applied

Everything here is derived from the log of the partition and may be lost: it is then made from the log again.
"""

from tidelog.storage.waiting.files import WaitingFiles
from tidelog.storage.waiting.index import WaitingIndex

__all__ = ["WaitingFiles", "WaitingIndex"]
