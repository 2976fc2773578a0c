"""The sink: rows of DataFrames into topics, each micro-batch exactly once.

    settings      the options of the sink, read and checked
    rows          which columns a row has, and which partition it goes to
    deliveries    the three promises: exactly once, at least once, and exactly once for small outputs
    task          what a task does with the Arrow batches it is given
    participant   one part in a transaction, as driver or task: how it begins and ends
    transaction   the open transaction that travels to tasks, and its timeout
    committed_batches  the compacted state topic with the last batch of each query
    tail          the part of that topic where transactions are still open
    checkpoint    what Spark noted for a batch, by which a repeated batch is told from another one
    row_fingerprint  what stands in for that note where it cannot be read
    messages      what tasks tell the driver, and what the driver checks about it
    clients       the cluster and the producers of a sink, kept by a worker from batch to batch
    placement     `place_rows`: rows to the tasks that own their partitions, which `jvm_partitions` chooses if it can
    each_batch    `write_each_batch`: the same promise from `foreachBatch`

One transaction belongs to each micro-batch. The driver opens it when the write is planned, tasks fill it, each writing
to partitions that no other task writes to, and the driver ends it together with the number of the batch:

    plan     InitProducerId: aborts what a dead run left, fences its tasks; producer id and epoch travel to the tasks
    write    AddPartitionsToTxn, Produce; a message tells the driver which partitions were written
    commit   is this batch in the state topic already?  yes: abort, it was committed before a crash.
             no: its number into the state topic, in the same transaction, and EndTxn

So a batch that Spark runs again after a crash is visible once, however it was cut into tasks.
"""
