"""One member's side of a share group. Pure.

The same protocol as `consumer.heartbeat_member`, with less to report: partitions are not owned by one member, so
nothing is given up before it is taken.
"""

from tidelog.client.aio.consumer.heartbeat_member import LEAVE_EPOCH, GroupMember
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareMember(GroupMember[frozenset[str]]):
    """This consumer as a member, or future member, of a share group. It reports the topics it subscribes to."""

    def __init__(self, group_id: str, rack_id: str | None) -> None:
        super().__init__(group_id, frozenset())
        self._rack_id = rack_id

    def heartbeat_request(self, wishes: frozenset[str]) -> ShareGroupHeartbeatRequest:
        """A heartbeat, with the fields that have changed."""
        self._sent = wishes
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.member_epoch
        )
        if self._reported is None:
            request.rack_id = self._rack_id
        if self._reported != wishes:
            request.subscribed_topic_names = sorted(wishes)
        return request

    def leave_request(self) -> ShareGroupHeartbeatRequest | None:
        """Leave, if there is anything to leave."""
        was_in, member_id = self.is_in, self.member_id
        self.forget()
        if not was_in:
            return None
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
