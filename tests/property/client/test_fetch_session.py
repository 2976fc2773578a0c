"""A client's fetch session beside the broker's, whatever changes, is lost, is evicted or is answered late.

After every exchange that succeeds, the broker's session has exactly what the client wants.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.fetch_session import FetchEntry, FetchSession
from tidelog.replication.fetch_session import FetchContext, FetchSessionCache
from tidelog.wire.fetch import PartitionReply, decode_request
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.partitions import PartitionKey

NAMES = ("a", "b")
KEYS = [(name, index) for name in NAMES for index in range(2)]
events = st.one_of(
    st.tuples(st.just("want"), st.sampled_from(KEYS), st.integers(0, 3) | st.none()),
    st.tuples(st.just("recreate"), st.sampled_from(NAMES)),
    st.tuples(st.just("exchange"), st.booleans()),
    st.tuples(st.just("lose request")),
    st.tuples(st.just("lose reply")),
    st.tuples(st.just("evict")),
)


class World:
    """One client, one broker that keeps a session for it or not."""

    def __init__(self) -> None:
        self.cache = FetchSessionCache(100, iter(range(1, 1 << 30)).__next__)
        self.client = FetchSession()
        self.ids = {name: name.encode() * 16 for name in NAMES}
        self.wanted: dict[PartitionKey, FetchEntry] = {}
        self._recreations = 0

    def want(self, key: PartitionKey, offset: int | None) -> None:
        if offset is None:
            self.wanted.pop(key, None)
        else:
            self.wanted[key] = FetchEntry(self.ids[key[0]], offset, -1, 1000, 4, -1)

    def recreate(self, name: str) -> None:
        """A topic has another id from here on."""
        self._recreations += 1
        self.ids[name] = f"{name}{self._recreations:015}".encode()
        for key, entry in list(self.wanted.items()):
            if key[0] == name:
                self.wanted[key] = entry._replace(topic_id=self.ids[name])

    def exchange(self, *, by_each: bool) -> None:
        """A request and its answer. The client says all that it wants, or what has changed."""
        context = self._ask(by_each=by_each)
        if context is None:
            return
        answered = self.client.accept(_answer(context))
        if context.error:
            assert answered is None
            return
        assert answered is not None
        assert context.session is not None
        names = {topic_id: name for name, topic_id in self.ids.items()}
        kept = {
            (names[str_or_id], index): cached.fetch.fetch_offset
            for (str_or_id, index), cached in context.session.partitions.items()
            if isinstance(str_or_id, bytes)
        }
        assert kept == {key: entry.fetch_offset for key, entry in self.wanted.items()}

    def lose_request(self) -> None:
        if self.wanted:
            self._say(by_each=False)
            self.client.build()
            self.client.fail()

    def lose_reply(self) -> None:
        if self._ask(by_each=True) is not None:
            self.client.fail()

    def evict(self) -> None:
        self.cache._sessions.clear()

    def _say(self, *, by_each: bool) -> None:
        if not by_each:
            self.client.want_only(self.wanted)
            return
        for key in KEYS:
            self.client.want(key, self.wanted.get(key))

    def _ask(self, *, by_each: bool) -> FetchContext | None:
        self._say(by_each=by_each)
        if not self.wanted:
            return None
        changes = self.client.build()
        request = FetchRequest(
            session_id=changes.session_id,
            session_epoch=changes.session_epoch,
            topics=changes.topics,
            forgotten_topics_data=changes.forgotten,
        )
        version = FetchRequest.versions[1]
        data = request.encode(version)
        spans = decode_request(data, 0, len(data), version)
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return self.cache.open(spans, uses_topic_ids=True, resolve=names.get, now_ms=0)


def _answer(context: FetchContext) -> FetchResponse:
    """As a broker answers: in full to a full request, else what has news."""
    if context.error:
        return FetchResponse(error_code=context.error)
    replies = [PartitionReply(each.fetch.partition_index, 0, high_watermark=9) for each in context.wanted]
    return FetchResponse(
        session_id=context.session_id,
        responses=[
            FetchableTopicResponse(
                topic_id=key if isinstance(key, bytes) else bytes(16),
                partitions=[PartitionData(partition_index=each.partition_index) for each in chosen],
            )
            for key, chosen in context.select(replies)
        ],
    )


@given(st.lists(events, max_size=60))
@settings(deadline=None, max_examples=examples(200))
def test_the_brokers_session_has_what_the_client_wants(script: list[tuple[Any, ...]]) -> None:
    world = World()
    for what, *arguments in script:
        if what == "exchange":
            world.exchange(by_each=arguments[0])
        else:
            getattr(world, what.replace(" ", "_"))(*arguments)
    # Whatever came before, two exchanges are enough: one learns that the session is gone, one opens another.
    world.want(KEYS[0], 7)
    world.exchange(by_each=True)
    world.exchange(by_each=False)
    world.exchange(by_each=False)
    assert world.client.build().session_epoch > 0
