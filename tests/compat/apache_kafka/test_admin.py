"""Our admin, every claim of it, against Apache Kafka."""

import pytest

pytest.register_assert_rewrite("tests.integration.admin_claims")

from tests.integration.admin_claims import *  # noqa: E402, F403
