"""A compacted topic as state: balances of accounts are read from it, added to, and written back to it.

    tidelog pipeline run account_balances.py

Nothing is kept in Spark's state store. The topic `balances` is the table: compaction keeps the latest record of each
account, so it has about one record per account, and any consumer can read all of it. A pipeline that starts on another
machine has its state again as soon as it has read the topic.

The new balances and the number of the batch are one transaction: a batch that Spark repeats after a crash changes
nothing. Here the batch is written by a function of our own, because the sum is that of the batch and of the table, and
not one over the whole stream, which is what Spark would make of it.
"""

from typing import TYPE_CHECKING

from tidelog.examples.compacted import as_table
from tidelog.spark.pipeline import Pipeline, each_batch, pack_json, parse_json, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE = "balances"
BALANCE = "account string, balance_cents long, payments long"


def add_up(payments: "DataFrame", batch_id: int) -> None:
    """One batch: the balances as they are, the payments added, those that changed written back."""
    from tidelog.spark import place_rows, write_each_batch

    servers = pipeline.servers()
    cluster = {"kafka.bootstrap.servers": servers}
    committed = {**cluster, "subscribe": TABLE, "kafka.isolation.level": "read_committed"}
    records = payments.sparkSession.read.format("tidelog").options(**committed).load()
    changed = pack_json(key="account")(new_balances(payments, as_table(records, BALANCE)))
    placed = place_rows(changed, topic=TABLE, bootstrap_servers=servers)
    write_each_batch(**cluster, topic=TABLE)(placed, batch_id)


def new_balances(payments: "DataFrame", balances: "DataFrame") -> "DataFrame":
    """The balances that these payments change."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    added = payments.groupBy("account").agg(F.sum("amount_cents").alias("added_cents"), F.count("*").alias("added"))
    both = added.join(balances, "account", "left")
    return both.select(
        "account",
        (F.coalesce("balance_cents", F.lit(0)) + F.col("added_cents")).alias("balance_cents"),
        (F.coalesce("payments", F.lit(0)) + F.col("added")).alias("payments"),
    )


pipeline = Pipeline(
    "account-balances",
    source=topic("payments", maxOffsetsPerTrigger=50_000),
    steps=[parse_json("payment_id long, account string, amount_cents long")],
    sink=each_batch(add_up),
    trigger="1s",
    description="Running balances, whose state is the topic they are written to.",
)

if __name__ == "__main__":
    pipeline.run()
