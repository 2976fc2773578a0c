"""Every option of the source: defaults, checks, refusals."""

import pickle

import pytest

from tests.unit.spark.source.fakes import SERVERS, offsets
from tidelog.spark.options import OptionError
from tidelog.spark.source.limits import AtOffsets, AtTime, AtTimes, Earliest, Latest
from tidelog.spark.source.settings import load_batch_settings, load_stream_settings

BASE = {**SERVERS, "subscribe": "t"}


def _stream(**options):
    return load_stream_settings({**BASE, **{name.replace("__", "."): value for name, value in options.items()}})


def _batch(**options):
    return load_batch_settings({**BASE, **{name.replace("__", "."): value for name, value in options.items()}})


def test_defaults_are_those_of_the_official_connector():
    stream, batch = _stream(), _batch()
    assert (stream.starting, batch.starting, batch.ending) == (Latest(), Earliest(), Latest())
    assert stream.task.fail_on_data_loss
    assert batch.task.fail_on_data_loss
    assert stream.task.poll_timeout_ms == 120_000
    assert (stream.offset_retries, stream.offset_retry_ms, stream.metadata_ttl_ms) == (3, 10, -1)
    assert stream.admission.max_delay_ms == 15 * 60 * 1000
    assert not stream.admission.is_limited
    assert not stream.task.client.read_committed
    assert stream.task.client.client_id == "spark-kafka-source"
    assert batch.task.client.client_id == "spark-kafka-relation"


def test_names_are_read_without_regard_to_case():
    assert load_stream_settings({**BASE, "STARTINGOFFSETS": "Earliest"}).starting == Earliest()


def test_a_time_for_all_wins_over_times_and_these_over_offsets():
    all_three = {
        "startingTimestamp": "7",
        "startingOffsetsByTimestamp": '{"t":{"0":8}}',
        "startingOffsets": '{"t":{"0":9}}',
    }
    assert _stream(**all_three).starting == AtTime(7)
    del all_three["startingTimestamp"]
    assert _stream(**all_three).starting == AtTimes(offsets(t_0=8))
    del all_three["startingOffsetsByTimestamp"]
    assert _stream(**all_three).starting == AtOffsets(offsets(t_0=9))


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_streams_have_no_end(name):
    with pytest.raises(OptionError, match=f"'{name}' cannot be set here: a stream has no end"):
        _stream(**{name: "5"})


def test_segment_files_are_no_stream():
    with pytest.raises(OptionError, match=r"'path' cannot be set here: segment files are read by spark\.read"):
        _stream(path="/var/lib/kafka")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' is latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"'startingOffsets' has -1 \(latest\) for t-0"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' is earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"'endingOffsets' has -2 \(earliest\) for t-0"),
    ],
)
def test_batches_do_not_begin_at_the_end_nor_end_at_the_beginning(options, said):
    with pytest.raises(OptionError, match=said):
        _batch(**options)


def test_limits_of_triggers_are_mentioned_and_ignored_in_batches():
    assert "'maxOffsetsPerTrigger' has no effect in a batch query" in _batch(maxOffsetsPerTrigger="5").notes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "first"}, "'first': it must be earliest, latest or JSON"),
        ({"startingTimestamp": "-1"}, "at least 0"),
        ({"startingTimestamp": "99999999999999999999"}, "must be a time in milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "one of error, latest"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"maxRecordsPerPartition": "x"}, "'x': it must be a whole number"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"maxBytesPerTrigger": "1k"}, "whole number"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "must not exceed 'maxOffsetsPerTrigger', 5"),
        ({"maxTriggerDelay": "soon"}, "'soon': it must be a time such as"),
        ({"partition__metadata__cache__ttl__ms": "0"}, "positive, or -1"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"fetchOffset__numRetries": "-1"}, "at least 0"),
        ({"kafka__fetch__min__bytes": "few"}, "fetch.min.bytes"),
        ({"kafka__isolation__level": "snapshot"}, "isolation.level"),
    ],
)
def test_values_that_make_no_sense_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        _stream(**options)


@pytest.mark.parametrize(("text", "expected_ms"), [("15m", 900_000), ("250ms", 250), ("2h", 7_200_000), ("90", 90)])
def test_delays_are_written_as_spark_writes_times(text, expected_ms):
    assert _stream(minOffsetsPerTrigger="1", maxTriggerDelay=text).admission.max_delay_ms == expected_ms


def test_client_settings_are_passed_on():
    client = _stream(
        kafka__isolation__level="read_committed",
        kafka__max__partition__fetch__bytes="2000",
        kafka__fetch__min__bytes="10",
        kafka__fetch__max__wait__ms="20",
        kafka__request__timeout__ms="30",
        kafka__client__id="me",
        kafka__check__crcs="false",
    ).task.client
    assert client.read_committed
    assert (client.fetch_bytes, client.fetch_min_bytes, client.fetch_max_wait_ms) == (2000, 10, 20)
    assert (client.request_timeout_ms, client.client_id, client.check_crcs) == (30, "me", False)


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
def test_what_the_official_connector_refuses_is_refused(name):
    with pytest.raises(OptionError, match=f"'kafka.{name}' cannot be set"):
        load_stream_settings({**BASE, f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "sasl.login.class"])
def test_security_that_would_silently_be_missing_is_refused(name):
    with pytest.raises(OptionError, match=f"'kafka.{name}' is not supported"):
        load_stream_settings({**BASE, f"kafka.{name}": "x"})


def test_settings_of_tls_and_sasl_reach_the_clients_and_are_not_shown():
    client = _stream(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config="the secret",
        kafka__ssl__truststore__location="/ca.pem",
    ).task.client
    assert dict(client.security) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "the secret",
        "ssl.truststore.location": "/ca.pem",
    }
    assert "secret" not in repr(client)


def test_a_protocol_that_does_not_exist_is_refused():
    with pytest.raises(OptionError, match=r"security\.protocol"):
        _stream(kafka__security__protocol="SSH")


def test_unknown_client_settings_are_mentioned_only():
    assert _stream(kafka__nonsense="1").notes == (
        "option 'kafka.nonsense' is not a consumer setting and has no effect",
    )


def test_groups_are_names_only():
    """No query joins a group: its name shows up as client id, where quotas and logs of brokers see it."""
    named = _stream(kafka__group__id="g")
    assert named.task.client.client_id == "g"
    assert "joins no group" in named.notes[0]
    assert _stream(groupIdPrefix="p").task.client.client_id == "p"


def test_brokers_must_be_named():
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' is missing"):
        load_stream_settings({"subscribe": "t"})


def test_what_tasks_need_is_small_and_travels():
    task = _stream().task
    assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(task)) < 600
