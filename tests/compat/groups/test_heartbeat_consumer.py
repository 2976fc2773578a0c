"""Our consumer under `group.protocol=consumer`, the claims that our own broker sees it keep, against Apache Kafka.

Our own broker sees them in every run; a KRaft takes longer to start than they take together.
"""

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from tests.compat.groups.kraft import KraftBroker
from tests.integration.test_consumer_heartbeat_groups import SETTINGS, ConsumerProtocolCluster, TestHeartbeatGroups

__all__ = ["TestHeartbeatGroups"]

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

REPLICATION = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsumerProtocolCluster]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with KraftBroker(tmp_path_factory.mktemp("kraft"), {**SETTINGS, **REPLICATION}) as broker:
        yield ConsumerProtocolCluster(broker.bootstrap_servers)
