"""A compacted topic as state: balances of accounts are read from it, added to, and written back to it.

    tidelog pipeline run account_balances.py

Nothing is kept in Spark's state store. The topic `balances` is the table: compaction keeps the latest record of each
account, so it stays as small as the accounts are many, and any reader can have the whole of it. A pipeline that starts
anew, on another machine or with another Spark, has its state back as soon as it has read the topic.

What was added up and how far payments were read are one transaction with the batch's number: a batch that Spark repeats
after a crash changes nothing.
"""

from typing import TYPE_CHECKING

from tidelog.spark.examples.compacted import as_table
from tidelog.spark.pipeline import DeadLetters, Pipeline, pack_json, parse_json, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BALANCE = "account string, balance_cents long, payments long"


def add_up(payments: "DataFrame", balances: "DataFrame") -> "DataFrame":
    """The balances that this batch of payments changes."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    added = payments.groupBy("account").agg(F.sum("amount_cents").alias("added_cents"), F.count("*").alias("added"))
    both = added.join(as_table(balances, BALANCE), "account", "left")
    return both.select(
        "account",
        (F.coalesce("balance_cents", F.lit(0)) + F.col("added_cents")).alias("balance_cents"),
        (F.coalesce("payments", F.lit(0)) + F.col("added")).alias("payments"),
    )


pipeline = Pipeline(
    "account-balances",
    source=topic("payments", maxOffsetsPerTrigger=50_000),
    tables={"balances": topic("balances")},
    steps=[parse_json("payment_id long, account string, amount_cents long"), add_up, pack_json(key="account")],
    sink=topic("balances"),
    # With a policy, steps see one batch after another: sums below are sums of the batch, not of the whole stream.
    on_failure=DeadLetters("payments.dlq"),
    trigger="1s",
    description="Running balances, whose state is the topic they are written to.",
)

if __name__ == "__main__":
    pipeline.run()
