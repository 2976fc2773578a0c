"""The directories of `log.dirs` and the logs in them.

manager             LogManager: loading, creating, deleting, checkpoints, rounds over all logs, shutdown
log_directory       LogDirectory: the lock, the clean-shutdown marker, the partitions' directories
meta_properties     which broker and which cluster a directory belongs to
partition_metadata  which topic id a partition's directory belongs to
background          work that would block the thread of the logs
"""
