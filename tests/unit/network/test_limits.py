"""Counting connections and requests, without a socket."""

from __future__ import annotations

from dataclasses import replace

from tidelog.network.limits import ConnectionQuotas, NetworkLimits, RequestChannel


def test_a_listener_waits_while_the_broker_is_full_and_goes_on_when_a_connection_closes() -> None:
    quotas = ConnectionQuotas(NetworkLimits(connections_max=2))
    assert quotas.try_admit("PLAINTEXT", "10.0.0.1", 0.0)
    assert quotas.try_admit("PLAINTEXT", "10.0.0.2", 0.0)
    assert not quotas.has_room("PLAINTEXT")
    quotas.release("PLAINTEXT", "10.0.0.1")
    assert quotas.has_room("PLAINTEXT")


def test_a_listener_has_its_own_limit_and_the_others_do_not_notice() -> None:
    quotas = ConnectionQuotas(NetworkLimits(listener_connections_max={"INTERNAL": 1}))
    assert quotas.try_admit("INTERNAL", "10.0.0.1", 0.0)
    assert not quotas.has_room("INTERNAL")
    assert quotas.has_room("EXTERNAL")


def test_an_address_is_turned_away_at_its_limit_and_overrides_win() -> None:
    limits = NetworkLimits(connections_per_ip_max=1, connections_per_ip_overrides={"10.0.0.9": 2})
    quotas = ConnectionQuotas(limits)
    assert quotas.try_admit("PLAINTEXT", "10.0.0.1", 0.0)
    assert not quotas.try_admit("PLAINTEXT", "10.0.0.1", 0.0)
    assert quotas.try_admit("PLAINTEXT", "10.0.0.9", 0.0)
    assert quotas.try_admit("PLAINTEXT", "10.0.0.9", 0.0)
    assert not quotas.try_admit("PLAINTEXT", "10.0.0.9", 0.0)


def test_a_refused_address_is_not_counted() -> None:
    quotas = ConnectionQuotas(NetworkLimits(connections_per_ip_max=0))
    assert not quotas.try_admit("PLAINTEXT", "10.0.0.1", 0.0)
    assert quotas.total == 0


def test_a_lowered_limit_leaves_an_excess_to_close() -> None:
    quotas = ConnectionQuotas(NetworkLimits())
    for host in range(5):
        quotas.try_admit("PLAINTEXT", f"10.0.0.{host}", 0.0)
    quotas.update_limits(NetworkLimits(connections_max=3))
    assert quotas.excess() == 2


def test_the_channel_is_full_by_number_or_by_bytes() -> None:
    channel = RequestChannel(2, 100)
    assert not channel.is_full
    channel.queued_requests = 2
    assert channel.is_full
    channel.queued_requests, channel.queued_bytes = 1, 100
    assert channel.is_full


def test_without_a_byte_limit_only_the_number_counts() -> None:
    channel = RequestChannel(500, -1)
    channel.queued_bytes = 2**40
    assert not channel.is_full


def test_connections_come_at_the_rate_of_the_setting_after_ten_seconds_share_at_once() -> None:
    quotas = ConnectionQuotas(NetworkLimits(connections_per_second_max=2))
    for _ in range(20):
        assert quotas.wait_seconds("PLAINTEXT", 100.0) == 0
        assert quotas.try_admit("PLAINTEXT", "10.0.0.1", 100.0)
    assert quotas.wait_seconds("PLAINTEXT", 100.0) == 0.5
    assert quotas.wait_seconds("PLAINTEXT", 100.25) == 0.25
    assert quotas.wait_seconds("PLAINTEXT", 100.5) == 0
    assert quotas.try_admit("PLAINTEXT", "10.0.0.1", 100.5)
    assert quotas.wait_seconds("PLAINTEXT", 1000.0) == 0


def test_a_setting_that_changes_beside_a_rate_leaves_what_was_counted() -> None:
    limits = NetworkLimits(connections_per_second_max=1, connections_burst_ms=1000)
    quotas = ConnectionQuotas(limits)
    assert quotas.try_admit("PLAINTEXT", "10.0.0.1", 0.0)
    quotas.update_limits(replace(limits, connections_max=10))
    assert quotas.wait_seconds("PLAINTEXT", 0.0) == 1.0
    quotas.update_limits(replace(limits, connections_per_second_max=2))
    assert quotas.wait_seconds("PLAINTEXT", 0.0) == 0


def test_an_address_that_may_not_connect_at_all_is_held_and_closed() -> None:
    quotas = ConnectionQuotas(NetworkLimits())
    quotas.set_address_rate("10.0.0.1", 0)
    assert quotas.address_wait_seconds("10.0.0.1", 5.0) == 1.0
    assert quotas.address_wait_seconds("10.0.0.2", 5.0) == 0


def test_a_listener_has_a_rate_of_its_own_beside_the_brokers() -> None:
    limits = NetworkLimits(listener_connections_per_second_max={"EXTERNAL": 1}, connections_burst_ms=1000)
    quotas = ConnectionQuotas(limits)
    assert quotas.try_admit("EXTERNAL", "10.0.0.1", 0.0)
    assert quotas.try_admit("INTERNAL", "10.0.0.1", 0.0)
    assert quotas.wait_seconds("EXTERNAL", 0.0) == 1.0
    assert quotas.wait_seconds("INTERNAL", 0.0) == 0


def test_the_listener_between_brokers_is_exempt_from_the_limits_of_the_whole_broker() -> None:
    """As in Kafka: clients that fill a broker up must not cut it off from the others."""
    limits = NetworkLimits(connections_max=1, connections_per_second_max=1, protected_listener="INTERNAL")
    quotas = ConnectionQuotas(limits)
    assert quotas.try_admit("EXTERNAL", "10.0.0.1", 0.0)
    assert not quotas.has_room("EXTERNAL")
    assert quotas.has_room("INTERNAL")
    assert quotas.wait_seconds("INTERNAL", 0.0) == 0
    assert quotas.try_admit("INTERNAL", "10.0.0.2", 0.0)
    assert quotas.excess() == 1


def test_the_rate_of_an_address_holds_in_whichever_text_it_is_set() -> None:
    quotas = ConnectionQuotas(NetworkLimits())
    quotas.set_address_rate("0:0:0:0:0:0:0:1", 0)
    assert quotas.address_wait_seconds("::1", 1.0) > 0
    quotas.set_address_rate("::1", None)
    assert quotas.address_wait_seconds("::1", 1.0) == 0
