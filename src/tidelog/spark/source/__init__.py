"""Reading topics into Spark: which offsets, split how, fetched and decoded into Arrow.

    columns         the columns of a record, and the user's choice among them
    settings        every option of the source, with defaults and checks
    strategies      assign, subscribe, subscribePattern: which partitions
    offsets         offsets as the options, checkpoints and progress reports write them
    resolve         where to begin and to end: names, offsets and times made offsets
    admission       how much one micro-batch takes
    ranges          offsets split into tasks
    cluster_view    what the driver asks the cluster
    task_reader     what a task does: fetch, decode, yield Arrow
    data_loss       offsets that are no longer there: explained, and refused or counted
    batch_reader    `spark.read`
    stream_reader   `spark.readStream`
    files           `spark.read` of segment files, without a broker
    progress        lag and rates of running queries

Nothing is imported here: executors import single modules with every task.
"""
