"""Example pipelines; docs/examples.md explains them.

    enrich_orders      orders joined with their customers, exactly once; orders that arrive too early are retried
    tide_windows       averages over windows of event time, with a watermark for late readings
    account_balances   a compacted topic as the state of a running sum: read back at every start, written on
    payments_lake      a topic as Parquet files and as a Delta Lake table, exactly once, with a backfill
    customer_changes   a database's change events to latest state of each row
    demo               what `tidelog demo` shows
    data topics        events of these shapes, the same ones for the same seed, and the topics they go to
    compacted          a compacted topic as a table

`python -m tidelog.examples` lists the files and fills their topics.
"""
