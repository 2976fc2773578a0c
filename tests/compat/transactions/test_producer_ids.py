"""InitProducerId over the wire: ids, epochs, fencing, timeouts, and the errors of each version."""

import pytest

from tests.compat.kafka_tools import brokers
from tests.compat.transactions.protocol import Producer, Rpc, until
from tidelog.wire.errors import ErrorCode


def test_an_idempotent_producer_gets_an_id_of_its_own(rpc: Rpc) -> None:
    first, second = rpc.init(None), rpc.init(None)
    assert (first[0], first[2]) == (second[0], second[2]) == (ErrorCode.NONE, 0)
    assert first[1] != second[1]


def test_an_idempotent_producer_may_give_any_timeout(rpc: Rpc) -> None:
    assert rpc.init(None, timeout_ms=-1)[0] is ErrorCode.NONE


def test_a_transactional_id_keeps_its_producer_id_and_raises_its_epoch(rpc: Rpc, name: str) -> None:
    first = rpc.start(name)
    assert rpc.start(name) == first._replace(epoch=1)


def test_an_empty_transactional_id_is_refused(rpc: Rpc) -> None:
    assert rpc.init("") == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(rpc: Rpc, name: str, timeout_ms: int) -> None:
    rpc.start(name)
    assert rpc.init(name, timeout_ms=timeout_ms) == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)


def test_the_longest_timeout_is_allowed(rpc: Rpc, name: str) -> None:
    rpc.start(name, timeout_ms=900_000)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_id_and_epoch_are_named_together_or_not_at_all(rpc: Rpc, name: str, producer_id: int, epoch: int) -> None:
    rpc.start(name)
    code, _, _ = rpc.init(name, producer_id=producer_id, epoch=epoch)
    assert code is ErrorCode.INVALID_REQUEST


def test_a_producer_that_names_its_epoch_gets_the_next_and_may_ask_again(rpc: Rpc, name: str) -> None:
    _, producer_id, epoch = rpc.start(name)
    following = (ErrorCode.NONE, producer_id, epoch + 1)
    assert rpc.init(name, producer_id=producer_id, epoch=epoch) == following
    assert rpc.init(name, producer_id=producer_id, epoch=epoch) == following


@pytest.mark.parametrize(("version", "code"), [
    (3, ErrorCode.INVALID_PRODUCER_EPOCH),
    (4, ErrorCode.PRODUCER_FENCED),
    (5, ErrorCode.PRODUCER_FENCED),
])  # fmt: skip
def test_a_fenced_producer_gets_the_error_of_its_version(rpc: Rpc, name: str, version: int, code: ErrorCode) -> None:
    first = rpc.start(name)
    rpc.start(name)
    assert rpc.init(name, producer_id=first.producer_id, epoch=first.epoch, version=version) == (code, -1, -1)


def test_a_strange_producer_id_is_fenced(rpc: Rpc, name: str) -> None:
    first = rpc.start(name)
    assert rpc.init(name, producer_id=first.producer_id + 1_000_000, epoch=0)[0] is ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_is_aborted_and_the_producer_asks_again(rpc: Rpc, name: str, topic: str) -> None:
    first = rpc.start(name)
    rpc.begin(first, (topic, 0))
    rpc.write(topic, 0, [b"lost"], first)
    assert rpc.init(name) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    second = rpc.start(name)
    assert second == Producer(name, first.producer_id, first.epoch + 2), "one epoch was used to fence"
    assert rpc.read(topic) == []


def test_a_producer_that_aborts_its_own_transaction_so_gets_the_next_epoch(rpc: Rpc, name: str, topic: str) -> None:
    """With transactions of version 2, as in Kafka 4; Kafka 3.9 fences it."""
    first = rpc.start(name)
    rpc.begin(first, (topic, 0))
    _, producer_id, epoch = first
    assert rpc.init(name, producer_id=producer_id, epoch=epoch)[0] is ErrorCode.CONCURRENT_TRANSACTIONS
    until(lambda: rpc.state(name) == "CompleteAbort")
    following = (
        (ErrorCode.PRODUCER_FENCED, -1, -1)
        if brokers.tests_are_under_test()
        else (ErrorCode.NONE, producer_id, epoch + 1)
    )
    assert rpc.init(name, producer_id=producer_id, epoch=epoch) == following


def test_versions_from_the_first_on_are_served(rpc: Rpc, name: str) -> None:
    first = rpc.start(name)
    for version in range(6):
        code, producer_id, epoch = rpc.init(name, version=version)
        assert (code, producer_id, epoch) == (ErrorCode.NONE, first.producer_id, first.epoch + 1 + version)
