"""The log on disk: segments, indexes, the log that owns them, and the directories that hold logs.

Names are imported from their modules, so that a tool which reads one file kind does not load the broker's log:

    log            Log: one partition
    types          AppendOrigin, LogAppendInfo, LogRead, FileSlice and other plain data
    segment        Segment and its indexes
    producers      idempotence and transactions
    leader_epochs  LeaderEpochCache
    loading        opening a log, after a crash as well
    directories    LogManager: log directories, retention, flushing, deletion
    cleaner        LogCleaner: compaction
    dump           every file as rows
    checkpoints    offset checkpoint files
    errors         StorageError and its kinds, LogDirFailure first of all
    names          file and directory names
"""
