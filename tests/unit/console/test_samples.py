"""Throughput and lag from samples of offsets."""

from tidelog.client.types import TopicPartition
from tidelog.console.samples import LagSamples, Point, ThroughputSamples, total_lag

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_throughput_is_the_growth_of_end_offsets():
    samples = ThroughputSamples()
    samples.add(100.0, {A0: 5, A1: 5})
    assert samples.rate_of("a") is None
    samples.add(110.0, {A0: 25, A1: 5, B0: 1000})
    assert samples.rate_of("a") == 2.0
    assert samples.rate_of("b") == 0.0, "what a new partition held before is not throughput"
    assert list(samples.cluster) == [Point(110.0, 2.0)]


def test_a_topic_that_was_recreated_does_not_count_backwards_and_a_deleted_one_is_forgotten():
    samples = ThroughputSamples()
    for at, ends in ((0.0, {A0: 100, B0: 0}), (10.0, {A0: 3, B0: 10}), (20.0, {A0: 13})):
        samples.add(at, ends)
    assert [point.value for point in samples.of_topic("a")] == [0.0, 1.0]
    assert samples.of_topic("b") == ()


def test_series_are_bounded():
    samples, lags = ThroughputSamples(points_max=3), LagSamples(points_max=3)
    for at in range(10):
        samples.add(float(at), {A0: at})
        lags.add("g", float(at), at)
    assert len(samples.cluster) == len(samples.of_topic("a")) == len(lags.of_group("g")) == 3
    assert lags.lag_of("g") == 9
    lags.keep_only([])
    assert lags.lag_of("g") is None


def test_lag_leaves_out_partitions_whose_end_is_unknown():
    assert total_lag({A0: 3, A1: 9, B0: 1}, {A0: 10, A1: 5}) == 7
