"""The topics of a retry policy: created at the start if they do not exist, checked if they do.

They have unlimited retention: a record that waits while the application is stopped must not be deleted. They allow
larger records than the topic that is read, because a failed record has more headers, and they have as many partitions.
"""

from collections.abc import Collection, Mapping
from typing import Final

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import ConfigResource, NewTopic, ResourceType
from tidelog.client.errors import ApiError, ClientConfigError
from tidelog.client.retry.policy import BROKER, Ladder
from tidelog.wire.errors import ErrorCode

DELAY_ENABLE: Final = "tidelog.delay.enable"
RECORD_BYTES: Final = "max.message.bytes"
RECORD_BYTES_DEFAULT: Final = 1_048_588
TRAIL_BYTES_MAX: Final = 32 * 1024
"""More than the headers of a failed record take: an error of 2,000 characters, names, numbers, a batch around them."""

KEPT_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
LAST_OF_EACH_KEY: Final = {
    "cleanup.policy": "compact",
    # Small, because compaction leaves the newest segment alone and every start reads all of it.
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}


async def make_topics(admin: AsyncAdmin, ladders: Mapping[str, Ladder]) -> int:
    """Create what is missing for the topics that `ladders` names; returns the size of the largest failed record.

    Raises ClientConfigError if a retry topic cannot be used: records that should wait in it would not.
    """
    sources = {topic: len(each.partitions) for topic, each in (await admin.describe_topics(ladders)).items()}
    record_bytes = await _record_bytes_max(admin, sources) + TRAIL_BYTES_MAX
    wanted: dict[str, NewTopic] = {}
    for source, ladder in ladders.items():
        for name, topic in _wanted(ladder, sources[source], record_bytes).items():
            if name not in wanted or wanted[name].partitions < topic.partitions:
                wanted[name] = topic
    there = {each.name for each in await admin.list_topics()}
    for name, topic in wanted.items():
        if name not in there:
            await _create(admin, topic)
    is_ordered = any(ladder.policy.keep_order_by_key for ladder in ladders.values())
    await _check(admin, [topic for name, topic in wanted.items() if name in there], is_ordered=is_ordered)
    return record_bytes


def _wanted(ladder: Ladder, partitions: int, record_bytes: int) -> dict[str, NewTopic]:
    kept = {**KEPT_FOR_EVER, RECORD_BYTES: str(record_bytes)}
    waiting = {**kept, DELAY_ENABLE: "true"} if ladder.policy.store == BROKER else kept
    wanted = {name: NewTopic(name, partitions, configs=waiting) for name in ladder.retry_topics}
    wanted[ladder.dead_letters] = NewTopic(ladder.dead_letters, partitions, configs=kept)
    if ladder.served_topic is not None:
        wanted[ladder.served_topic] = NewTopic(ladder.served_topic, partitions, configs=kept)
    if ladder.policy.keep_order_by_key:
        wanted[ladder.keys_topic] = NewTopic(ladder.keys_topic, partitions, configs=LAST_OF_EACH_KEY)
    return wanted


async def _record_bytes_max(admin: AsyncAdmin, topics: Collection[str]) -> int:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    found = (await admin.describe_configs(resources, names=[RECORD_BYTES])).values()
    sizes = [int(config.value) for settings in found for config in settings.values() if config.value is not None]
    return max(sizes, default=RECORD_BYTES_DEFAULT)


async def _create(admin: AsyncAdmin, topic: NewTopic) -> None:
    try:
        await admin.create_topics([topic])
    except ApiError as error:
        if error.code is ErrorCode.INVALID_CONFIG and DELAY_ENABLE in topic.configs:
            raise ClientConfigError(
                f"topic {topic.name!r} cannot delay records here ({error}); use RetryPolicy(store='topics')"
            ) from error
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _check(admin: AsyncAdmin, topics: Collection[NewTopic], *, is_ordered: bool) -> None:
    delaying = {topic.name for topic in topics if DELAY_ENABLE in topic.configs}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(delaying)]
    found = await admin.describe_configs(resources, names=[DELAY_ENABLE]) if resources else {}
    for resource, settings in found.items():
        if DELAY_ENABLE not in settings or settings[DELAY_ENABLE].value != "true":
            raise ClientConfigError(
                f"topic {resource.name!r} does not delay records: `tidelog config alter --topic {resource.name} --set "
                f"{DELAY_ENABLE}=true`, or use RetryPolicy(store='topics')"
            )
    described = await admin.describe_topics([topic.name for topic in topics]) if topics else {}
    for topic in topics:
        count = len(described[topic.name].partitions)
        if count != topic.partitions if is_ordered else count < topic.partitions:
            raise ClientConfigError(
                f"topic {topic.name!r} has {count} partitions and the topic that is read {topic.partitions}; "
                f"it must have {'as' if is_ordered else 'at least as'} many"
            )
