"""Exactly-once enrichment: every order leaves with its customer's country and tier and with its total, once.

    tidelog pipeline run enrich_orders.py

Customers are a compacted topic, read completely for every batch. An order may arrive before the record of a new
customer: it is retried after five seconds and after half a minute, and is then a dead letter in `orders.dlq`.
Kill the pipeline whenever you like and start it again: each order is in `orders.enriched` once, for consumers that read
committed records.
"""

from typing import TYPE_CHECKING

from tidelog.examples.compacted import as_table
from tidelog.spark.pipeline import Pipeline, RetryLadder, fail_when, pack_json, parse_json, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "order_id long, customer_id string, sku string, quantity int, unit_price_cents long, placed_at_ms long"
CUSTOMER = "customer_id string, country string, tier string"
DISCOUNT_PERCENT = {"plus": 5, "pro": 10}


def with_customer(orders: "DataFrame", customers: "DataFrame") -> "DataFrame":
    """Each order beside its customer; country and tier stay null where there is none."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    return orders.join(F.broadcast(as_table(customers, CUSTOMER)), "customer_id", "left")


def with_total(orders: "DataFrame") -> "DataFrame":
    """The price of the whole order, less the discount of the customer's tier."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    percent = F.lit(100)
    for tier, discount in DISCOUNT_PERCENT.items():
        percent = F.when(F.col("tier") == tier, 100 - discount).otherwise(percent)
    return orders.withColumn("total_cents", F.floor(F.col("quantity") * F.col("unit_price_cents") * percent / 100))


pipeline = Pipeline(
    "enrich-orders",
    source=topic("orders", maxOffsetsPerTrigger=50_000),
    tables={"customers": topic("customers")},
    steps=[
        parse_json(ORDER),
        fail_when("quantity <= 0", "an order without quantity", retry=False),
        with_customer,
        fail_when("country is null", "no such customer yet"),
        with_total,
        pack_json("order_id", "customer_id", "country", "tier", "sku", "quantity", "total_cents", key="customer_id"),
    ],
    sink=topic("orders.enriched"),
    on_failure=RetryLadder(delays=["5s", "30s"], dead_letters="orders.dlq"),
    description="Orders with their customers, exactly once.",
)

if __name__ == "__main__":
    pipeline.run()
