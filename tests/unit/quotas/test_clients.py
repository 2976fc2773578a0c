"""Which limit holds for a client, and who shares what is measured against it."""

import pytest

from tidelog.quotas import DEFAULT, ClientQuotas, MutationQuotas, QuotaEntity, QuotaType, RateWindows, limits_in

# The most specific first, as Kafka lists them.
PRECEDENCE = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity("alice", None),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT, None),
    QuotaEntity(None, "app"),
    QuotaEntity(None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_limit_holds(first: int) -> None:
    quotas = ClientQuotas()
    for limit, entity in enumerate(PRECEDENCE[first:], start=first):
        quotas.set_limit(entity, limit + 1)
    found = quotas.limit_of("alice", "app")
    assert found is not None
    assert found[1] == first + 1


def test_a_limit_that_is_removed_leaves_the_next_one() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity("alice", None), 10)
    quotas.set_limit(QuotaEntity(None, "app"), 20)
    assert quotas.limit_of("alice", "app") == (QuotaEntity("alice", None), 10)
    quotas.set_limit(QuotaEntity("alice", None), None)
    assert quotas.limit_of("alice", "app") == (QuotaEntity(None, "app"), 20)
    quotas.set_limit(QuotaEntity(None, "app"), None)
    assert quotas.limit_of("alice", "app") is None
    assert not quotas.is_limited


def test_all_clients_of_a_user_share_its_limit_and_users_do_not_share_the_default() -> None:
    quotas = ClientQuotas(RateWindows(2, 1000))
    quotas.set_limit(QuotaEntity(DEFAULT, None), 100)
    assert quotas.record("alice", "one", 100, 0) == 0
    assert quotas.record("alice", "two", 100, 0) > 0
    assert quotas.record("bob", "one", 100, 0) == 0


def test_a_client_without_a_limit_is_not_measured() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity("alice", None), 1)
    assert quotas.record("bob", "app", 1e9, 0) == 0


def test_over_time_a_client_gets_its_rate_however_large_its_requests_are() -> None:
    quotas = ClientQuotas(RateWindows(11, 1000))
    quotas.set_limit(QuotaEntity(None, "app"), 1_000_000)
    for size in (10_000, 1_000_000, 5_000_000):
        now_ms = begun_ms = size * 1_000_000
        sent = 0
        while sent < 500_000_000:
            now_ms += max(quotas.record("", "app", size, now_ms), 1)
            sent += size
        rate = sent / ((now_ms - begun_ms) / 1000)
        # A burst at the beginning is let through, as the windows before it were empty.
        assert 0.9e6 < rate < 1.1e6


def test_what_is_taken_back_does_not_count() -> None:
    quotas = ClientQuotas(RateWindows(2, 1000))
    quotas.set_limit(QuotaEntity(None, "app"), 100)
    assert quotas.record("", "app", 1000, 0) > 0
    quotas.take_back("", "app", 1000, 0)
    assert quotas.record("", "app", 50, 0) == 0


def test_ever_new_client_ids_do_not_fill_the_memory() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity(None, DEFAULT), 1)
    for number in range(25_000):
        quotas.record("", f"client-{number}", 1, 0)
    assert len(quotas._measured) <= 10_000
    assert len(quotas._resolved) <= 10_000


def test_a_bucket_lets_a_burst_through_and_then_the_rate() -> None:
    quotas = MutationQuotas(RateWindows(10, 1000))
    quotas.set_limit(QuotaEntity("alice", None), 2)
    bucket = quotas.bucket_of("alice", "app", 0)
    assert bucket is not None
    bucket.take(30, 0)  # the bucket holds 20
    assert bucket.is_empty(0)
    assert bucket.throttle_ms(0) == 5000
    assert bucket.is_empty(4999)
    assert not bucket.is_empty(5000)
    assert quotas.bucket_of("alice", "other", 5000) is bucket
    assert quotas.bucket_of("bob", "app", 5000) is None


def test_a_changed_rate_holds_at_once_and_keeps_the_debt() -> None:
    quotas = MutationQuotas(RateWindows(10, 1000))
    quotas.set_limit(QuotaEntity("alice", None), 1)
    bucket = quotas.bucket_of("alice", "app", 0)
    assert bucket is not None
    bucket.take(20, 0)
    quotas.set_limit(QuotaEntity("alice", None), 10)
    again = quotas.bucket_of("alice", "app", 0)
    assert again is bucket
    assert bucket.throttle_ms(0) == 1000


def test_settings_that_are_not_numbers_are_no_limits() -> None:
    settings = {"producer_byte_rate": "1024.0", "consumer_byte_rate": "much", "SCRAM-SHA-256": "salt=x"}
    assert limits_in(settings) == {QuotaType.PRODUCE: 1024.0}
