"""A share consumer in its group: heartbeats beside the application, and the partitions that they assign."""

from collections.abc import Callable, Mapping

from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeat_loop import HeartbeatLoop
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.share.member import ShareMember
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.client.aio.share.types import TopicIdPartition
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


class ShareMembership:
    """Lives in the loop of its client."""

    def __init__(self, client: NetworkClient, settings: ShareConsumerSettings, notify: Callable[[], None]) -> None:
        assert settings.group_id is not None, "a share consumer has a group"
        self.topics: frozenset[str] = frozenset()
        """What the consumer subscribes to."""
        self.member = ShareMember(settings.group_id, settings.client_rack or None)
        self.group_id = settings.group_id
        self._client = client
        self._refreshed_for: object = None
        self._heartbeats = HeartbeatLoop(
            client,
            settings,
            GroupLink(client, settings.group_id),
            self.member,
            ShareGroupHeartbeatResponse,
            lambda: self.topics,
            _at_once,
            notify,
        )

    def step(self) -> None:
        """The application polls: stay in the group, or join it. Raises the error that ended the membership."""
        self._heartbeats.polled()
        self._heartbeats.keep_beating()

    def assigned(self) -> Mapping[TopicIdPartition, TopicPartition]:
        """The partitions to read. Ids that metadata does not know are looked up, and count once they are."""
        target = self.member.target
        found: dict[TopicIdPartition, TopicPartition] = {}
        for topic_id, partitions in ({} if target is None else target).items():
            name = self._client.metadata.topic_name(topic_id)
            if name is not None:
                found.update({(topic_id, each): TopicPartition(name, each) for each in partitions})
            elif self._refreshed_for is not target:
                self._refreshed_for = target
                self._client.request_refresh()
        return found

    async def leave(self, reason: str, until_ms: int) -> None:
        """Leave the group."""
        self._heartbeats.stop()
        await self._heartbeats.leave(reason, until_ms)


async def _at_once() -> None:
    """A member that was fenced joins again at once: it owns nothing that it would have to give up first."""
