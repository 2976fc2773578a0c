"""Log compaction: the last record of every key stays, the rest goes, offsets and order as they were.

Two halves. The broker decides and swaps, cheaply, on its loop; a worker process reads and writes records:

    planning      which log next, which part of it, and the job for that
    manager       LogCleaner: starts jobs, swaps results in, keeps the clean points, reports
    requests      compactions that an operator asked for
    jobs          what goes to a worker and what comes back: paths and numbers
    swap          cleaned segments take the place of those they were made from
    metrics       counters under Kafka's names
    worker        the process: jobs on its standard input, events on its standard output
    cleaning      one job: a map of the dirty part, then every segment written again
    transactions  which batches belong to aborted transactions, and which markers are still needed

The broker imports the first six, never what works on records.
"""
