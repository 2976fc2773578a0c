"""Which limit holds for a client, and who shares what is measured against it."""

import pytest

from tidelog.quotas import DEFAULT, ClientQuotas, QuotaEntity, QuotaType, limits_in

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
    quotas = ClientQuotas(burst_ms=1000)
    quotas.set_limit(QuotaEntity(DEFAULT, None), 100)
    assert quotas.record("alice", "one", 100, 0) == 0
    assert quotas.record("alice", "two", 100, 0) > 0
    assert quotas.record("bob", "one", 100, 0) == 0


def test_a_client_without_a_limit_is_not_measured() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity("alice", None), 1)
    assert quotas.record("bob", "app", 1e9, 0) == 0


def test_what_is_not_within_the_limit_is_not_counted() -> None:
    quotas = ClientQuotas(burst_ms=1000)
    quotas.set_limit(QuotaEntity(None, "app"), 100)
    assert quotas.try_record("", "app", 80, 0) == 0
    assert quotas.try_record("", "app", 50, 0) == 300
    assert quotas.try_record("", "app", 20, 0) == 0


def test_what_is_larger_than_a_burst_passes_once_the_client_was_idle_for_that_long() -> None:
    """Otherwise a batch of more than ten seconds' worth would never reach its consumer."""
    quotas = ClientQuotas(burst_ms=1000)
    quotas.set_limit(QuotaEntity(None, "app"), 100)
    assert quotas.try_record("", "app", 500, 0) == 0
    assert quotas.try_record("", "app", 500, 0) == 5000
    assert quotas.try_record("", "app", 500, 4999) == 1
    assert quotas.try_record("", "app", 500, 5000) == 0


def test_what_was_counted_is_known_by_those_who_share_a_limit() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity("alice", None), 100)
    quotas.record("alice", "one", 30, 0)
    quotas.record("alice", "two", 20, 50_000)
    assert dict(quotas.measured()) == {QuotaEntity("alice", None): 50}


def test_ever_new_client_ids_do_not_fill_the_memory() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity(None, DEFAULT), 1)
    for number in range(25_000):
        quotas.record("", f"client-{number}", 1, 0)
    assert len(quotas._buckets) <= 10_000
    assert len(quotas._resolved) <= 10_000


def test_a_bucket_lets_a_burst_through_and_then_the_rate() -> None:
    quotas = ClientQuotas(burst_ms=10_000)
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


def test_a_bounded_debt_is_paid_in_the_time_of_a_burst() -> None:
    quotas = ClientQuotas(burst_ms=10_000, is_debt_bounded=True)
    quotas.set_limit(QuotaEntity("alice", None), 2)
    assert quotas.record("alice", "app", 1_000_000, 0) == 10_000
    assert quotas.wait_ms("alice", "app", 10_000) == 0


def test_a_changed_rate_holds_at_once_and_keeps_the_debt() -> None:
    quotas = ClientQuotas(burst_ms=10_000)
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


@pytest.mark.parametrize("limit", [1.0, 1e-3, 5e-324])
def test_a_wait_is_never_longer_than_a_response_can_name(limit: float) -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity(None, "app"), limit)
    assert quotas.record("", "app", 100e6, 0) == 2**31 - 1
    assert quotas.try_record("", "app", 100e6, 0) == 2**31 - 1


def test_a_long_client_id_is_limited_like_any_other_and_not_kept_whole() -> None:
    quotas = ClientQuotas()
    quotas.set_limit(QuotaEntity(None, DEFAULT), 10.0)
    first, second = "a" * 30_000, "a" * 29_999 + "b"
    quotas.set_limit(QuotaEntity(None, second), 20.0)
    found = [quotas.limit_of("alice", each) for each in (first, second)]
    assert [each and each[1] for each in found] == [10.0, 20.0]
    assert quotas.record("alice", first, 1000, 0) > 0
    assert quotas.wait_ms("alice", second, 0) == 0, "they share nothing"
    assert quotas.wait_ms("bob", first, 0) > 0, "users with the same client id share its limit"
    assert all(len(entity.client_id or "") <= 255 for entity, _ in quotas.measured())
