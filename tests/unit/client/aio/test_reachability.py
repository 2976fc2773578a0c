import logging

import pytest

from tidelog.client.aio.reachability import Reachability


def test_an_address_is_logged_at_its_first_failure_and_then_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    found = Reachability(5000, 0)
    for now_s in range(31):
        found.failed("a:1", "Connection refused", now_s)
    assert caplog.messages == ["no broker at a:1: Connection refused; retrying"] * 2


def test_an_address_that_answered_meanwhile_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = Reachability(5000, 0)
    found.failed("a:1", "Connection refused", 0)
    found.connected("a:1")
    found.failed("a:1", "timed out", 1)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_client_that_never_reached_a_broker_gives_up_and_names_every_address() -> None:
    found = Reachability(5000, 1000)
    found.failed("a:1", "Connection refused", 1.0)
    assert found.give_up(5999) is None
    found.failed("b:2", "Name or service not known", 5.9)
    error = found.give_up(6000)
    assert error is not None
    assert error.failures == {"a:1": "Connection refused", "b:2": "Name or service not known"}
    assert "a:1: Connection refused; b:2: Name or service not known" in str(error)
    assert "bootstrap.timeout.ms=5000" in str(error)


def test_after_giving_up_the_time_starts_again() -> None:
    found = Reachability(5000, 0)
    assert found.give_up(5000) is not None
    assert found.give_up(9999) is None
    assert found.give_up(10_000) is not None


def test_a_client_that_reached_a_broker_once_goes_on_trying() -> None:
    found = Reachability(5000, 0)
    found.connected("a:1")
    found.failed("a:1", "Connection refused", 1)
    assert found.give_up(10**9) is None
