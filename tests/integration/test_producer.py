"""Our producer, every claim of it, against our broker."""

from collections.abc import Iterator

import pytest

from tidelog.testing import Broker

pytest.register_assert_rewrite("tests.integration.producer_claims")

from tests.integration.producer_claims import *  # noqa: E402, F403


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers
