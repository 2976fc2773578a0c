"""Handlers leave the loop to others however long a request is: between two pauses there is work for one entry.

Each of these held the loop for 20 to 40 ms with what a request of 900 kB can name.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.broker.open_access import OPEN_TO_ALL
from tests.unit.steps import Stretches, served
from tidelog.broker.configuration.current import CurrentSettings
from tidelog.broker.handlers import create_partitions, create_topics, user_scram_credentials
from tidelog.broker.hosting.hosted_topics import HostedTopics
from tidelog.broker.security.scram_credentials import ScramCredentials
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.image import ClusterImage, PartitionImage, TopicImage
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from tidelog.wire.messages.create_partitions import CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic

COUNT = 2_000
LINES_MAX = 1_000
"""Between two pauses, in which a hundred entries may be counted; all of them would take many thousands."""


def context_of(slices: Stretches) -> Any:
    image = ClusterImage("cluster")
    image.set_topic(TopicImage("t1", bytes(15) + b"1", [PartitionImage(0, 0, 0, (0,), (0,))]))
    node = SimpleNamespace(
        slices=slices,
        image=image,
        topology=SimpleNamespace(is_controller=True),
        listener_security=SimpleNamespace(credentials=ScramCredentials()),
    )
    return SimpleNamespace(
        node=node,
        pause=slices.pause,
        api_version=2,
        **OPEN_TO_ALL,
    )


def test_topics_are_counted_one_at_a_time() -> None:
    slices = Stretches()
    topics = [CreatableTopic(name="", num_partitions=2**31 - 1, replication_factor=1) for _ in range(COUNT)]
    request = messages.CreateTopicsRequest(topics=topics)
    with slices.counting():
        response = served(create_topics.handle(request, context_of(slices)))
    assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert slices.longest < LINES_MAX


def test_topics_that_grow_are_counted_one_at_a_time() -> None:
    slices = Stretches()
    topics = [CreatePartitionsTopic(name=f"t{index}", count=100, assignments=None) for index in range(COUNT)]
    request = messages.CreatePartitionsRequest(topics=topics)
    with slices.counting():
        response = served(create_partitions.handle(request, context_of(slices)))
    assert [topic.error_code for topic in response.results] == [ErrorCode.POLICY_VIOLATION] * COUNT
    assert slices.longest < LINES_MAX


def test_credentials_are_refused_one_at_a_time() -> None:
    slices = Stretches()
    request = messages.AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=f"u{index}", mechanism=1) for index in range(COUNT)],
        upsertions=[ScramCredentialUpsertion(name=f"u{index}", mechanism=index % 2 + 1) for index in range(COUNT)],
    )
    with slices.counting():
        response = served(user_scram_credentials.handle_alter(request, context_of(slices)))
    assert [result.user for result in response.results] == [f"u{index}" for index in range(COUNT)]
    # Users of even number are named twice for the mechanism 1.
    codes = [ErrorCode.DUPLICATE_RESOURCE, ErrorCode.RESOURCE_NOT_FOUND]
    assert [result.error_code for result in response.results] == codes * (COUNT // 2)
    assert slices.longest < LINES_MAX


# --- settings of a topic with many partitions ---


class FollowingLogs:
    """Logs by partition, each with the settings that it was given last."""

    def __init__(self, topic: str, count: int) -> None:
        self.configs: dict[int, Any] = {}
        self._hosted = {
            (topic, index): SimpleNamespace(log=SimpleNamespace(update_config=self._follow(index)))
            for index in range(count)
        }

    def _follow(self, index: int) -> Any:
        return lambda config: self.configs.__setitem__(index, config)

    def find(self, topic: str, index: int) -> Any:
        return self._hosted.get((topic, index))


def wide_topic(slices: Stretches) -> tuple[HostedTopics, FollowingLogs, ClusterImage]:
    image = ClusterImage("cluster")
    image.set_topic(TopicImage("wide", bytes(16), [PartitionImage(i, 0, 0, (0,), (0,)) for i in range(COUNT)]))
    logs = FollowingLogs("wide", COUNT)
    nothing: Any = None
    replica_manager: Any = logs
    delayed: Any = SimpleNamespace(opened=lambda _partition: None)
    settings = CurrentSettings(ConfigLayers({}))
    pauses: Any = slices
    topics = HostedTopics(settings, image, nothing, replica_manager, delayed, nothing, nothing, pauses)
    return topics, logs, image


def test_logs_follow_the_settings_of_their_topic_one_at_a_time() -> None:
    """Ten thousand of them took 40 ms."""
    slices = Stretches()
    topics, logs, _ = wide_topic(slices)
    topics.config_of("wide")  # parsing settings for the first time takes some hundred lines
    with slices.counting():
        served(topics.apply_overrides("wide", {"retention.ms": "77"}))
    assert {config.retention_ms for config in logs.configs.values()} == {77}
    assert len(logs.configs) == COUNT
    assert slices.count >= COUNT


def test_settings_that_change_while_logs_follow_them_are_followed_by_all() -> None:
    class ChangedMeanwhile(Stretches):
        async def pause(self) -> None:
            await super().pause()
            if self.count == COUNT // 2:
                image.set_overrides("wide", {"retention.ms": "99"})

    topics, logs, image = wide_topic(ChangedMeanwhile())
    served(topics.apply_overrides("wide", {"retention.ms": "77"}))
    assert {config.retention_ms for config in logs.configs.values()} == {99}
