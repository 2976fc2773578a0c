"""The log on disk: segments, indexes, the log that owns them, and the directories that hold logs.

Names are imported from their modules, so that a tool which reads one file kind does not load the broker's log:

    log              Log: one partition
    types            AppendOrigin, LogAppendInfo, LogRead, FileSlice and other plain data
    segment          Segment; offset_index, time_index, transaction_index beside it
    producer_state   ProducerStateManager: idempotence and transactions
    leader_epochs    LeaderEpochCache
    errors           StorageError and its kinds, LogDirFailure first of all
    names            file and directory names
    log_manager      LogManager: log directories, loading, retention, flushing, deletion
    log_loader       opening a log, after a crash as well
    checkpoints, partition_metadata, meta_properties, log_directory, dump
"""
