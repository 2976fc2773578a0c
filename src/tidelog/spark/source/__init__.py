"""Reading topics into Spark: which offsets, split how, fetched and decoded into Arrow.

    settings        every option of the source, with defaults and checks: `client_settings`, `limits`, `durations`
    strategies      assign, subscribe, subscribePattern: which partitions
    columns         the columns of a record, and the user's choice among them
    offsets         offsets as the options, checkpoints and progress reports write them

On the driver:

    batch_reader    `spark.read`
    stream_reader   `spark.readStream`, which `stream_plan` decides for
    cluster_view    what is asked of the cluster
    resolve         where to begin and to end: words, offsets and times made offsets
    admission       how much one micro-batch takes; `record_sizes` for limits in bytes
    ranges          offsets split into tasks
    group_offsets   offsets shown to tools that watch consumer groups
    progress        lag and rates of running queries

In tasks:

    task_reader     fetch, decode, yield Arrow
    fetching        the answers of leaders, asked for ahead; `batch_walk` looks at them from outside
    arrow_rows      columns as Spark wants them; `header_columns` those of headers
    connections     kept from task to task

    data_loss       offsets that are no longer there: explained, and refused or counted
    files           `spark.read` of segment files, without a broker

Nothing is imported here: executors import single modules with every task.
"""
