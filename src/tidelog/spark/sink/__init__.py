"""The sink: rows of DataFrames into topics, each micro-batch exactly once.

    settings      the options of the sink, read and checked
    rows          which columns a row has, and which partition it goes to
    writers       what Spark plans, pickles and calls, for streams and for DataFrames
    deliveries    the three guarantees: exactly once, at least once, and exactly once for small outputs
    task          what a task does with the Arrow batches it is given
    gathering     rows that a task leaves to the driver, in its message or in a file
    participant   one part in a transaction, as driver or task: how it begins and ends
    transaction   the open transaction that travels to tasks, and its timeout
    committed_batches  the compacted state topic with the last batch of each query
    tail          the part of that topic where transactions are still open
    checkpoint    the offsets of a batch in Spark's checkpoint, which identify a repeated batch
    row_fingerprint  identifies a batch by its rows where these offsets cannot be read
    messages      reports of tasks to the driver, and the driver's checks
    clients       the cluster and the producers of a sink, kept by a worker from batch to batch
    placement     `place_rows`: rows to the tasks that own their partitions
    each_batch    `write_each_batch`: the same guarantee from `foreachBatch`

One transaction belongs to each micro-batch. The driver opens it when the write is planned, tasks fill it, each writing
to partitions that no other task writes to, and the driver ends it together with the number of the batch:

    plan     InitProducerId: aborts the transaction of an earlier run, fences its tasks; tasks get producer id and epoch
    write    AddPartitionsToTxn, Produce; a message reports the written partitions to the driver
    commit   is this batch in the state topic already?  yes: abort, it was committed before a crash.
             no: its number into the state topic, in the same transaction, and EndTxn

Rows with keys that were not placed may belong to a partition that another task writes: tasks leave them to the driver,
which writes them in the same transaction before it ends it.

So a batch that Spark runs again after a crash is visible once, however it was cut into tasks.
"""
