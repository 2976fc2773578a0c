import logging
from collections.abc import Iterator

import pytest

from tests.unit.controller.cluster import Cluster


@pytest.fixture(autouse=True)
def no_event_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A controller logs what it does not foresee and goes on; here that is a failure."""
    yield
    for when in ("setup", "call"):
        unforeseen = [record for record in caplog.get_records(when) if record.exc_info]
        assert not unforeseen, logging.Formatter().formatException(unforeseen[0].exc_info or (None, None, None))


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers, of which broker 1 is controller."""
    cluster = Cluster(1, 2, 3)
    cluster.add_controller(1)
    cluster.settle()
    return cluster
