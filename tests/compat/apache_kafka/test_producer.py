"""Our producer, every claim of it, against Apache Kafka."""

import pytest

pytest.register_assert_rewrite("tests.integration.producer_claims")

from tests.integration.producer_claims import *  # noqa: E402, F403
