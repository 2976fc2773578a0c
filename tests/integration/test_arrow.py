"""Arrow tables through our clients and our broker."""

from collections.abc import Iterator

import pytest

from tidelog.testing import Broker

pytest.register_assert_rewrite("tests.integration.arrow_claims")

from tests.integration.arrow_claims import *  # noqa: E402, F403


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers
