"""The Kafka connector that Apache Spark ships for the JVM: its jars.

They come from Maven once and stay in `${XDG_CACHE_HOME:-~/.cache}/tidelog/spark-kafka-4.2.0`, beside Apache Kafka's.
The benchmarks measure it beside our connector; `tests/compat/spark_connector` lets it read and write our broker. Both
ask `unavailable_reason()` first. Version 4.2.0 runs on Spark 4.3; of its helper for tokens any version does, because
no broker here asks for tokens.
"""

from __future__ import annotations

from functools import cache

from benchmarks.maven import SECONDS_MAX, Jars

VERSION = "4.2.0"
ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "3.5.1"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
MAVEN_SECONDS_MAX = SECONDS_MAX
JARS = Jars(f"spark-kafka-{VERSION}", f"Spark's Kafka connector {VERSION}", ARTIFACTS, with_dependencies=False)
"""Just these: what they depend on is in Spark already, or of no use here."""


@cache
def unavailable_reason() -> str | None:
    """Why the connector cannot run here, or None when it can. Fetches the jars the first time."""
    from tidelog.spark.java import JavaMissing, find_java_home

    try:
        find_java_home()
    except JavaMissing as missing:
        return str(missing)
    return JARS.unavailable_reason()


def spark_jars() -> str:
    """The value of `spark.jars` that brings the format `kafka` into a session."""
    return ",".join(str(jar) for jar in sorted(JARS.libs.glob("*.jar")))
