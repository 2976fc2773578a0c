"""What a `Broker` says before it runs, and what loading the kit costs."""

import os

import pytest

import tidelog.testing
from tidelog.testing import Broker


@pytest.mark.parametrize("ask", ["bootstrap_servers", "host", "port"])
def test_a_broker_that_never_ran_has_no_address(ask):
    with pytest.raises(RuntimeError, match="not started yet"):
        getattr(Broker(), ask)


def test_a_broker_that_does_not_run_has_no_process():
    with pytest.raises(RuntimeError, match="does not run"):
        _ = Broker(process=True).pid
    with pytest.raises(RuntimeError, match="does not run"):
        Broker(process=True).kill()


@pytest.mark.parametrize("verb", ["kill", "pause", "resume"])
def test_faults_of_a_process_need_a_process(verb):
    with pytest.raises(RuntimeError, match=r"Broker\(process=True\)"):
        getattr(Broker(), verb)()


def test_stopping_what_does_not_run_does_nothing_and_leaves_no_directory():
    broker = Broker()
    directory = broker.data_dir
    assert os.path.isdir(directory)
    broker.stop()
    assert not os.path.exists(directory)
    assert not broker.is_running


def test_a_directory_of_the_users_own_is_kept(tmp_path):
    broker = Broker(data_dir=tmp_path)
    broker.stop()
    assert broker.data_dir == str(tmp_path)
    assert tmp_path.is_dir()


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="Clusters"):
        _ = tidelog.testing.Clusters
