"""`python -m tidelog.examples fill`, as the demo suggests it. No Spark is started."""

import pytest

from tidelog.client import LATEST, Admin, TopicPartition
from tidelog.examples.__main__ import EXAMPLES, main
from tidelog.testing import Broker


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_topics_of_an_example_are_made_and_filled(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker() as broker:
        monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        assert main(["fill", name, "--records", "50"]) == 0
        sent = int(capsys.readouterr().out.split()[0].replace(",", ""))
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            topics = admin.describe_topics(list(EXAMPLES[name].topics))
            partitions = [
                TopicPartition(topic.name, each.partition) for topic in topics.values() for each in topic.partitions
            ]
            stored = [each.offset for each in admin.list_offsets(dict.fromkeys(partitions, LATEST)).values()]
    assert sent > 0
    assert sum(stored) == sent


def test_a_cluster_that_is_not_there_is_said_in_a_sentence_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", "payments_lake", "--bootstrap-server", "127.0.0.1:1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tidelog: no broker at 127.0.0.1:1")
