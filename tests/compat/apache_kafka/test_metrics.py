"""The figures of our clients, every claim of them, against Apache Kafka."""

import pytest

pytest.register_assert_rewrite("tests.integration.metrics_claims")

from tests.integration.metrics_claims import *  # noqa: E402, F403
