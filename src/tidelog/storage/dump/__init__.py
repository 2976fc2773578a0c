"""The files of a log directory as rows, with the fields and the order of Kafka's DumpLogSegments."""

from tidelog.storage.dump._dump import DumpOptions, DumpRow, dump_file, row_text

__all__ = ["DumpOptions", "DumpRow", "dump_file", "row_text"]
