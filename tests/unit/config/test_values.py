"""Texts become values, and values texts, as Kafka does it; what is wrong is said in Kafka's words."""

import pytest

from tidelog.config import BrokerConfig, ConfigError, LogConfig
from tidelog.config.kinds import format_double


def parse(name: str, text: str) -> object:
    return BrokerConfig.settings[name].parse(text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 5 ", 5),
        ("num.partitions", "+5", 5),
        ("auto.create.topics.enable", "TRUE", True),
        ("auto.create.topics.enable", " false", False),
        ("log.cleanup.policy", "compact , delete", ("compact", "delete")),
        ("log.cleanup.policy", "", ()),
        ("log.cleaner.min.cleanable.ratio", "1e-1", 0.1),
        ("log.dirs", "/a, /b,", ("/a", "/b")),
        ("broker.rack", "", ""),
        ("log.retention.ms", "-1", -1),
        ("inter.broker.protocol.version", "3.9.1", "3.9.1"),
        ("inter.broker.protocol.version", "0.11.0-IV2", "0.11.0-IV2"),
    ],
)
def test_text_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    assert parse(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions", "abc", "Invalid value abc for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "1_000", "Invalid value 1_000 for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "", "Invalid value  for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "9" * 5000, "Not a number of type INT"),
        ("num.partitions", "٣", "Not a number of type INT"),
        ("broker.id", "2147483648", "Not a number of type INT"),
        ("log.retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("offsets.topic.replication.factor", "40000", "Not a number of type SHORT"),
        ("delete.topic.enable", "yes", "Expected value to be either true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "NaN", "Value must be at least 0"),
        ("log.cleaner.min.cleanable.ratio", "inf", "Not a number of type DOUBLE"),
        (
            "log.cleanup.policy",
            "compact,foo",
            ("Invalid value foo for configuration log.cleanup.policy: String must be one of: compact, delete"),
        ),
        ("compression.type", "GZIP", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("inter.broker.protocol.version", "5.1", "Version 5.1 is not a valid version"),
        ("inter.broker.protocol.version", "3.9-IVx", "Version 3.9-IVx is not a valid version"),
    ],
)
def test_a_bad_value_is_refused_in_kafkas_words(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(name, text)
    assert problem in str(refused.value)
    assert name in str(refused.value)
    assert refused.value.setting == name


@pytest.mark.parametrize("text", ["*", "0:1", "0:1, 12:103", ""])
def test_throttled_replicas_are_pairs_or_all(text: str) -> None:
    LogConfig.settings["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["*,0:1", "abc", "1", "1:", ":1", "-1:2", "1:2:3"])
def test_throttled_replicas_are_nothing_else(text: str) -> None:
    with pytest.raises(ConfigError, match="must be the literal"):
        LogConfig.settings["leader.replication.throttled.replicas"].parse(text)


def test_null_is_a_value_only_where_there_is_no_default() -> None:
    assert BrokerConfig.settings["log.retention.ms"].parse(None) is None
    with pytest.raises(ConfigError, match=r"Invalid value null for configuration num\.partitions"):
        BrokerConfig.settings["num.partitions"].parse(None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (0.5, "0.5"), (1.0, "1.0"), (0.001, "0.001"), (0.0001, "1.0E-4"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (1e21, "1.0E21"), (-2.5e-9, "-2.5E-9"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (float("nan"), "NaN"), (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert format_double(value) == text
