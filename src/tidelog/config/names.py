"""What a name that no setting has may have been meant for: one rule for brokers, topics and clients.

Names that Kafka once had come first, by the tables below: those of the clients and brokers of 0.7 and 0.8, and those
that later versions, up to 4.0, removed. Then spelling decides.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

# What took the place of a name; the first that the broker, topic or client in question has is the one.
# fmt: off
_SUCCESSORS: Final[Mapping[str, tuple[str, ...]]] = {
    # Every client of 0.7 and 0.8.
    "broker.list": ("bootstrap.servers",),
    "metadata.broker.list": ("bootstrap.servers",),
    "zk.connect": ("zookeeper.connect", "bootstrap.servers"),
    "zk.connectiontimeout.ms": ("zookeeper.connection.timeout.ms", "socket.connection.setup.timeout.ms"),
    "zk.sessiontimeout.ms": ("zookeeper.session.timeout.ms", "session.timeout.ms"),
    "zookeeper.connect": ("bootstrap.servers",),
    "zookeeper.connection.timeout.ms": ("socket.connection.setup.timeout.ms",),
    "zookeeper.session.timeout.ms": ("session.timeout.ms",),
    "socket.buffersize": ("receive.buffer.bytes",),
    "socket.receive.buffer.bytes": ("receive.buffer.bytes",),
    "socket.send.buffer.bytes": ("send.buffer.bytes",),
    "socket.timeout.ms": ("request.timeout.ms",),
    "topic.metadata.refresh.interval.ms": ("metadata.max.age.ms",),
    # Producers.
    "batch.num.messages": ("batch.size",),
    "block.on.buffer.full": ("max.block.ms",),
    "buffer.size": ("send.buffer.bytes",),
    "compressed.topics": ("compression.type",),
    "compression.codec": ("compression.type",),
    "key.serializer.class": ("key.serializer",),
    "max.message.size": ("max.request.size",),
    "message.send.max.retries": ("retries",),
    "metadata.fetch.timeout.ms": ("max.block.ms",),
    "queue.buffering.max.messages": ("buffer.memory",),
    "queue.buffering.max.ms": ("linger.ms",),
    "queue.enqueue.timeout.ms": ("max.block.ms",),
    "queue.size": ("buffer.memory",),
    "queue.time": ("linger.ms",),
    "request.required.acks": ("acks",),
    "request.timeout": ("request.timeout.ms",),
    "serializer.class": ("value.serializer",),
    "timeout.ms": ("request.timeout.ms",),
    # Consumers.
    "auto.commit.enable": ("enable.auto.commit",),
    "autocommit.enable": ("enable.auto.commit",),
    "autocommit.interval.ms": ("auto.commit.interval.ms",),
    "autooffset.reset": ("auto.offset.reset",),
    "backoff.increment.ms": ("retry.backoff.ms",),
    "consumer.id": ("group.instance.id",),
    "fetch.message.max.bytes": ("max.partition.fetch.bytes",),
    "fetch.size": ("max.partition.fetch.bytes",),
    "fetch.wait.max.ms": ("fetch.max.wait.ms",),
    "groupid": ("group.id",),
    "offsets.channel.backoff.ms": ("retry.backoff.ms",),
    "offsets.channel.socket.timeout.ms": ("request.timeout.ms",),
    "queued.max.message.chunks": ("fetch.max.bytes",),
    "rebalance.backoff.ms": ("retry.backoff.ms",),
    "refresh.leader.backoff.ms": ("retry.backoff.ms",),
    # Brokers.
    "advertised.host.name": ("advertised.listeners",),
    "advertised.port": ("advertised.listeners",),
    "brokerid": ("broker.id",),
    "enable.zookeeper": ("zookeeper.connect",),
    "host.name": ("listeners",),
    "hostname": ("listeners",),
    "port": ("listeners",),
    "log.cleanup.interval.mins": ("log.retention.check.interval.ms",),
    "log.default.flush.interval.ms": ("log.flush.interval.ms",),
    "log.default.flush.scheduler.interval.ms": ("log.flush.scheduler.interval.ms",),
    "log.file.size": ("log.segment.bytes", "segment.bytes"),
    "log.flush.interval": ("log.flush.interval.messages", "flush.messages"),
    "log.retention.size": ("log.retention.bytes", "retention.bytes"),
    "max.socket.request.bytes": ("socket.request.max.bytes",),
    "monitoring.period.secs": ("metrics.sample.window.ms",),
    "num.threads": ("num.io.threads",),
    "replica.lag.max.messages": ("replica.lag.time.max.ms",),
    "transactional.id.timeout.ms": ("transactional.id.expiration.ms",),
}
_REMOVED: Final[Mapping[str, str]] = {
    "controller.message.queue.size": "the controller's queue has no bound",
    "dual.commit.enabled": "committed offsets are in the brokers",
    "offsets.commit.max.retries": "commits are retried for as long as `default.api.timeout.ms`",
    "offsets.storage": "committed offsets are in the brokers",
    "consumer.timeout.ms": "`poll` takes how long to wait",
    "log.flush.intervals.ms.per.topic": "set `flush.ms` of the topic",
    "log.retention.bytes.per.topic": "set `retention.bytes` of the topic",
    "log.retention.hours.per.topic": "set `retention.ms` of the topic",
    "log.roll.hours.per.topic": "set `segment.ms` of the topic",
    "log.segment.bytes.per.topic": "set `segment.bytes` of the topic",
    "topic.flush.intervals.ms": "set `flush.ms` of the topic",
    "topic.log.retention.hours": "set `retention.ms` of the topic",
    "num.consumer.fetchers": "a consumer fetches from all brokers at once",
    "producer.type": "every producer sends in the background; `linger.ms` and `batch.size` say when",
    "quota.consumer.default": "`tidelog quota set --client-id-default --consumer-byte-rate` sets it while brokers run",
    "quota.producer.default": "`tidelog quota set --client-id-default --producer-byte-rate` sets it while brokers run",
    "rebalance.max.retries": "the group coordinator rebalances",
    "zookeeper.sync.time.ms": "nothing reads through a ZooKeeper follower that may be behind",
}
# fmt: on
_SIMILARITY_MIN: Final = 0.7


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The name among `known` that took the place of `name`, or that it is most likely a misspelling of."""
    candidates = known if isinstance(known, Container) else list(known)
    # A topic's setting and its default of the broker mostly differ by this.
    of_broker_or_topic = (name.removeprefix("log."), f"log.{name}")
    for successor in (*_SUCCESSORS.get(name, ()), *of_broker_or_topic):
        if successor in candidates:
            return successor
    if name in _SUCCESSORS or name in _REMOVED:
        return None
    from difflib import get_close_matches  # only on the way to an error

    return next(iter(get_close_matches(name, list(candidates), n=1, cutoff=_SIMILARITY_MIN)), None)


def advice_about(name: str, known: Iterable[str], quoted: str = "{}") -> str:
    """`did you mean acks?`, or what there is in place of a setting that is gone; empty if nothing is known of it."""
    nearest = nearest_name(name, known)
    if nearest is not None:
        return f"did you mean {quoted.format(nearest)}?"
    return f"removed from Kafka: {_REMOVED[name]}" if name in _REMOVED else ""


def with_suggestion(name: str, known: Iterable[str]) -> str:
    """The name, and what may have been meant by it."""
    advice = advice_about(name, known)
    return f"{name} ({advice})" if advice else name
