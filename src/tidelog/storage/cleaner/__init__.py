"""Log compaction: keeps the last record of every key and removes the others; offsets and order stay the same.

It has two halves. The broker plans and swaps segments, cheaply, on its loop; a worker process reads and writes records:

    planning      which log next, which part of it, and the job for that
    manager       LogCleaner: starts jobs, swaps results in, keeps the clean points, reports
    requests      compactions that an operator asked for
    jobs          the messages to and from a worker: paths and numbers
    swap          replaces segments by the cleaned one made from them
    metrics       counters under Kafka's names
    worker        the process: jobs on its standard input, events on its standard output
    cleaning      one job: builds a map of the dirty part, then rewrites every segment
    transactions  which batches belong to aborted transactions, and which markers are still needed

The broker imports the first six, never the modules that work on records.
"""
