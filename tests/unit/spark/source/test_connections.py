"""Connections that outlive a task."""

from tidelog.spark.source.client_settings import ClientSettings
from tidelog.spark.source.connections import ConnectionPool

HERE, THERE = ClientSettings("here:1"), ClientSettings("there:1")


def test_what_is_given_back_is_taken_again():
    pool = ConnectionPool()
    first = pool.take(HERE)
    pool.give_back(HERE, first)
    assert pool.take(HERE) is first


def test_nobody_else_gets_what_is_taken():
    pool = ConnectionPool()
    assert pool.take(HERE) is not pool.take(HERE)


def test_other_settings_are_other_connections():
    pool = ConnectionPool()
    pool.give_back(HERE, here := pool.take(HERE))
    assert pool.take(THERE) is not here
    assert pool.take(HERE) is here


def test_the_pool_has_a_size_and_the_oldest_goes():
    pool = ConnectionPool(capacity=1)
    here, there = pool.take(HERE), pool.take(THERE)
    pool.give_back(HERE, here)
    pool.give_back(THERE, there)
    assert pool.take(THERE) is there
    assert pool.take(HERE) is not here


def test_what_was_idle_for_long_is_closed():
    pool = ConnectionPool(idle_s_max=-1.0)
    pool.give_back(HERE, here := pool.take(HERE))
    assert pool.take(HERE) is not here


def test_a_forked_worker_does_not_use_its_parents_sockets(monkeypatch):
    pool = ConnectionPool()
    pool.give_back(HERE, here := pool.take(HERE))
    monkeypatch.setattr("os.getpid", lambda: -5)
    assert pool.take(HERE) is not here


def test_a_pool_can_be_emptied():
    pool = ConnectionPool()
    pool.give_back(HERE, here := pool.take(HERE))
    pool.close()
    assert pool.take(HERE) is not here
