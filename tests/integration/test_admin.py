"""Our admin, every claim of it, against our broker."""

from collections.abc import Iterator

import pytest

from tidelog.testing import Broker

pytest.register_assert_rewrite("tests.integration.admin_claims")

from tests.integration.admin_claims import *  # noqa: E402, F403


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3}) as broker:
        yield broker.bootstrap_servers
