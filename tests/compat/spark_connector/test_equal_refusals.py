"""Options that Spark's own connector refuses, ours refuses too, and the other way round.

Ours is asked without Spark: its readers are plain classes that take options, with names in lower case as Spark gives
them.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.topics import EPOCH_MS, numbered, produce
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.options import OptionError

T = "<topic>"
"""Stands for a topic with two partitions of five records each."""

SUBSCRIBED: Mapping[str, object] = {"subscribe": T}
REFUSED_ALWAYS: tuple[Mapping[str, object], ...] = (
    {},
    {"subscribe": ""},
    {"subscribe": ","},
    {"subscribe": T, "assign": {T: [0]}},
    {"subscribe": T, "subscribePattern": ".*"},
    {"assign": "[1]"},
    {"assign": T},
    {"subscribePattern": ""},
    *(
        {**SUBSCRIBED, **more}
        for more in (
            {"kafka.bootstrap.servers": None},
            {"kafka.auto.offset.reset": "earliest"},
            {"kafka.key.deserializer": "x"},
            {"kafka.value.deserializer": "x"},
            {"kafka.enable.auto.commit": "true"},
            {"kafka.interceptor.classes": "x"},
            {"minPartitions": 0},
            {"minPartitions": "many"},
            {"maxRecordsPerPartition": 0},
        )
    ),
)
REFUSED_IN_BATCHES: tuple[Mapping[str, object], ...] = (
    {"assign": "{", "subscribe": None},
    {"startingOffsets": "{"},
    {"startingOffsets": "oldest"},
    {"startingTimestamp": "soon"},
    {"startingOffsetsByTimestamp": "{"},
    {"startingOffsetsByTimestampStrategy": "guess"},
    {"startingOffsets": "latest"},
    {"startingOffsets": {T: {"0": -1, "1": 0}}},
    {"startingOffsets": {T: {"0": 0}}},
    {"startingOffsets": {T: {"0": 0, "1": 0, "2": 0}}},
    {"endingOffsets": "earliest"},
    {"endingOffsets": {T: {"0": -2, "1": 5}}},
    {"endingOffsets": {T: {"0": 5}}},
    {"startingOffsetsByTimestamp": {T: {"0": EPOCH_MS}}},
)
REFUSED_IN_STREAMS: tuple[Mapping[str, object], ...] = (
    {"endingOffsets": "latest"},
    {"endingOffsetsByTimestamp": {T: {"0": 1, "1": 1}}},
    {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 5},
)
REFUSED_BY_OURS: tuple[tuple[Mapping[str, object], bool], ...] = (
    ({"startingTimestamp": -1}, False),
    ({"endingTimestamp": -1}, False),
    ({"endingTimestamp": 1}, True),
)
"""Spark's own takes a time before 1970 for a word of the protocol (-1 is the end), and ignores the end of a stream."""

ACCEPTED: tuple[Mapping[str, object], ...] = (
    {"startingOffsets": "EARLIEST"},
    {"STARTINGOFFSETS": "earliest", "SubScribe": T},
    {"startingOffsets": {T: {"0": -2, "1": 3}}},
    {"groupIdPrefix": "x", "kafka.group.id": "y"},
    {"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 2, "maxTriggerDelay": "5s"},
    {"kafkaConsumer.pollTimeoutMs": 1000, "fetchOffset.numRetries": 5, "fetchOffset.retryIntervalMs": 1},
    {"failOnDataLoss": "FALSE", "includeHeaders": "TRUE"},
    {"unknownOption": "x", "kafka.some.unknown.setting": "y"},
    {"startingTimestamp": EPOCH_MS, "startingOffsets": "earliest"},
)


@pytest.fixture(scope="module")
def topic(servers: str, make_topic: MakeTopic) -> str:
    name = make_topic("refusals", 2)
    produce(servers, name, numbered(10, 2))
    return name


def _given(options: Mapping[str, object], topic: str, servers: str) -> dict[str, str]:
    """The options as texts; None takes one out."""
    chosen = {"kafka.bootstrap.servers": servers, **options}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in chosen.items()}
    return {name: text.replace(T, topic) for name, text in texts.items() if text != "null"}


def _official_refusal(spark: SparkSession, given: dict[str, str], is_stream: bool) -> str | None:
    """Its options are read when the frame is made, offsets looked up when it is planned."""
    try:
        if is_stream:
            spark.readStream.format("kafka").options(**given).load()
        else:
            spark.read.format("kafka").options(**given).load().rdd.getNumPartitions()
    except Exception as error:
        return str(error).splitlines()[0]
    return None


def _our_refusal(given: Mapping[str, str], is_stream: bool) -> str | None:
    source = TidelogDataSource({name.lower(): value for name, value in given.items()})
    try:
        schema = source.schema()
        reader: Any = source.streamReader(schema) if is_stream else source.reader(schema)
        if is_stream:
            reader.getDefaultReadLimit()
        else:
            reader.partitions()
    except (OptionError, ValueError) as error:
        return str(error)
    return None


def _compare(spark: SparkSession, given: dict[str, str], *, is_stream: bool, is_refused: bool) -> None:
    refusals = (_official_refusal(spark, given, is_stream), _our_refusal(given, is_stream))
    assert [refusal is not None for refusal in refusals] == [is_refused, is_refused], refusals


@pytest.mark.parametrize("options", REFUSED_ALWAYS, ids=str)
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_refused_by_both(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, object], is_stream: bool
) -> None:
    _compare(spark, _given(options, topic, servers), is_stream=is_stream, is_refused=True)


@pytest.mark.parametrize("options", REFUSED_IN_BATCHES, ids=str)
def test_refused_by_both_in_batches(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, object]
) -> None:
    given = _given({**SUBSCRIBED, **options}, topic, servers)
    _compare(spark, given, is_stream=False, is_refused=True)


@pytest.mark.parametrize("options", REFUSED_IN_STREAMS, ids=str)
def test_refused_by_both_in_streams(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, object]
) -> None:
    given = _given({**SUBSCRIBED, **options}, topic, servers)
    _compare(spark, given, is_stream=True, is_refused=True)


@pytest.mark.parametrize(("options", "is_stream"), REFUSED_BY_OURS, ids=str)
def test_refused_by_ours_alone(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, object], is_stream: bool
) -> None:
    given = _given({**SUBSCRIBED, **options}, topic, servers)
    assert _official_refusal(spark, given, is_stream) is None
    assert _our_refusal(given, is_stream) is not None


@pytest.mark.parametrize("options", ACCEPTED, ids=str)
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_accepted_by_both(
    spark: SparkSession, servers: str, topic: str, options: Mapping[str, object], is_stream: bool
) -> None:
    names = {name.lower() for name in options}
    base = {} if "subscribe" in names else SUBSCRIBED
    _compare(spark, _given({**base, **options}, topic, servers), is_stream=is_stream, is_refused=False)
