import json

from tidelog.client.aio.counters import BrokerCounters
from tidelog.client.metrics import BrokerMetrics, ProducerMetrics, ProducerPartitionMetrics, RequestMetrics
from tidelog.client.types import TopicPartition
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.own_messages import OwnApiKey


def test_latencies_are_kept_by_api() -> None:
    counters = BrokerCounters("a:1")
    for latency_s in (0.25, 0.75):
        counters.replied(ApiKey.PRODUCE, latency_s)
    counters.replied(OwnApiKey.COMPACT_TOPICS, 1.0)
    assert counters.by_api() == {"PRODUCE": RequestMetrics(2, 0.5, 0.75), "20000": RequestMetrics(1, 1.0, 1.0)}


def test_figures_are_what_json_takes() -> None:
    broker = BrokerMetrics(1, "a:1", 1, 2, 3, 4, 5, 6, 7, 8, {"FETCH": RequestMetrics(1, 0.5, 0.5)})
    part = ProducerPartitionMetrics(1, 2, 3, 4, 5, 6, 7)
    figures = ProducerMetrics("me", 1.5, {1: broker}, {TopicPartition("t", 0): part}, 2, 6, 7, 8, 9, 10)
    written = json.loads(json.dumps(figures.as_dict()))
    assert written["brokers"]["1"]["by_api"]["FETCH"]["latency_s_mean"] == 0.5
    assert written["partitions"]["t-0"]["records_failed"] == 6
