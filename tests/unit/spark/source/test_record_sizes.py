"""How many bytes an offset takes."""

from typing import Any, cast

import pytest

from tests.unit.spark.source.fakes import FakeLog, offsets, tp
from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.errors import ApiError, BrokerUnavailable
from tidelog.spark.source.record_sizes import sample_bytes_per_offset
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import PartitionData


class FakeCluster:
    def __init__(self, **logs):
        self.logs = {tp(name.replace("_", "-")): log for name, log in logs.items()}
        self.is_down = False

    def fetch(self, starts, limits):
        if self.is_down:
            raise BrokerUnavailable("b:1", "refused")
        found: dict[Any, PartitionData] = {}
        errors: dict[Any, ApiError] = {}
        for where, offset in starts.items():
            log = self.logs.get(where)
            if log is None:
                errors[where] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            records = log.read(offset, limits.partition_bytes_max)
            if found and len(records) > limits.partition_bytes_max:
                records = None
            found[where] = PartitionData(partition_index=where.partition, records=records)
        if errors:
            raise PartlyRefused(errors, found)
        return found


def _log(size):
    log = FakeLog()
    for _ in range(10):
        log.append(*[bytes(size)] * 10)
    return log


def test_sizes_come_from_what_is_stored():
    cluster = FakeCluster(t_0=_log(1000), u_3=_log(50))
    sizes = sample_bytes_per_offset(cast(Any, cluster), offsets(t_0=0, u_3=0))
    assert sizes[tp("t-0")] == pytest.approx(1016, abs=5)
    assert sizes[tp("u-3")] == pytest.approx(66, abs=5)


def test_a_position_within_a_batch_does_not_make_its_records_seem_larger():
    """Brokers send the whole batch; nine of its ten records were read before."""
    sizes = sample_bytes_per_offset(cast(Any, FakeCluster(t_0=_log(10_000))), offsets(t_0=99))
    assert sizes[tp("t-0")] == pytest.approx(10_020, abs=20)


def test_batches_that_only_come_alone_are_asked_for_alone():
    """Brokers send a batch that is larger than the limit only if it is the first of the answer."""
    sizes = sample_bytes_per_offset(cast(Any, FakeCluster(t_0=_log(10), t_1=_log(10_000))), offsets(t_0=0, t_1=0))
    assert sizes[tp("t-1")] == pytest.approx(10_020, abs=20)


def test_what_cannot_be_asked_is_left_out(caplog):
    cluster = FakeCluster(t_0=_log(10))
    assert sample_bytes_per_offset(cast(Any, cluster), offsets(t_0=100, t_1=0)) == {}
    cluster.is_down = True
    assert sample_bytes_per_offset(cast(Any, cluster), offsets(t_0=0)) == {}
    assert "could not be sampled for maxBytesPerTrigger" in caplog.text
