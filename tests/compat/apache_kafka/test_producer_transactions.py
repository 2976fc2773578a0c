"""Our producer's transactions, every claim of them, against Apache Kafka."""

import pytest

pytest.register_assert_rewrite("tests.integration.transaction_claims")

from tests.integration.transaction_claims import *  # noqa: E402, F403
