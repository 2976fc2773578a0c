"""What a model may ask a cluster: the tools of `tidelog mcp`.

Each is a coroutine whose docstring and parameters are what the model is given. Results are bounded, and say so where
something was left out. The cluster is seen through the console's view of it, with the rights of one user; `Reading`
changes nothing, `Writing` needs `--allow-writes`.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tidelog.client.aio.admin.types import (
    EARLIEST,
    LATEST,
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from tidelog.client.durations import DurationError, milliseconds, parse_moment_ms
from tidelog.client.group_resets import RESETTABLE_STATES, Bounds, parse_target
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.formats import Format
from tidelog.console.reading import bounds_of, make_filter, offsets_at_time, read
from tidelog.console.scan import Record, parse_cursor, write_cursor
from tidelog.console.schemas import RegistryDecoder
from tidelog.health import summarize
from tidelog.wire.errors import ApiError, ErrorCode

ROWS_MAX: Final = 500
RECORDS_MAX: Final = 100
CHARACTERS_MAX: Final = 20_000
"""Of one key, value or header."""
TOTAL_CHARACTERS_MAX: Final = 200_000
"""Of the records of one answer."""

Result = dict[str, Any]
Tool = Callable[..., Awaitable[Result]]

TopicName = Annotated[str, Field(description="Name of the topic.")]
Limit = Annotated[int, Field(ge=1, le=ROWS_MAX, description="At most so many rows.")]
Contains = Annotated[str, Field(description="Only names that contain this text.")]


class Reading:
    """Tools that change nothing."""

    def __init__(self, view: ClusterView, decoder: RegistryDecoder) -> None:
        self._view = view
        self._decoder = decoder

    def tools(self) -> list[Tool]:
        """Every tool."""
        return [
            self.cluster_overview,
            self.check_health,
            self.list_topics,
            self.describe_topic,
            self.read_messages,
            self.list_groups,
            self.describe_group,
            self.describe_config,
        ]

    async def cluster_overview(self) -> Result:
        """Brokers, controller, counts of topics and partitions, and the health of the cluster in one sentence."""
        seen = await self._view.snapshot.get()
        return {
            "cluster_id": seen.cluster.cluster_id,
            "controller": seen.cluster.controller_id,
            "brokers": [{"id": node.node_id, "address": node.address} for node in seen.cluster.nodes],
            "topics": sum(not topic.is_internal for topic in seen.topics.values()),
            "partitions": sum(len(topic.partitions) for topic in seen.topics.values()),
            "health": summarize(seen.cluster, seen.topics).sentence,
        }

    async def check_health(self) -> Result:
        """Everything that is wrong with brokers, partitions, disks, settings, groups and transactions, and what to do
        about it, the most urgent first."""
        found = await self._view.findings.get()
        rows = [
            {"level": each.level.name.lower(), "subject": each.subject, "text": each.text, "advice": each.advice}
            for each in found
        ]
        return _bounded("findings", rows, ROWS_MAX)

    async def list_topics(self, contains: Contains = "", include_internal: bool = False, limit: Limit = 100) -> Result:
        """Topics with their partitions and replicas."""
        seen = await self._view.snapshot.get()
        rows = [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
                "under_replicated": sum(len(each.in_sync) < len(each.replicas) for each in topic.partitions),
                "without_leader": sum(each.leader_id < 0 for each in topic.partitions),
            }
            for topic in sorted(seen.topics.values(), key=lambda topic: topic.name)
            if contains in topic.name and (include_internal or not topic.is_internal)
        ]
        return _bounded("topics", rows, limit)

    async def describe_topic(self, topic: TopicName, limit: Limit = 100) -> Result:
        """A topic's partitions with leader, replicas and offsets, and the settings that differ from the defaults."""
        found = (await self._view.snapshot.get()).topic(topic)
        shown = found.partitions[:limit]
        bounds = await bounds_of(self._view, topic, [each.partition for each in shown])
        rows = [
            {
                "partition": each.partition,
                "leader": each.leader_id,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
                "earliest": bounds.first.get(each.partition),
                "latest": bounds.end.get(each.partition),
            }
            for each in found.partitions
        ]
        settings = await self._configs(ConfigResource(ResourceType.TOPIC, topic))
        own = {each.name: _value(each) for each in settings.values() if each.source == ConfigSource.DYNAMIC_TOPIC}
        return {"topic": topic, "settings": own, **_bounded("partitions", rows, limit)}

    async def read_messages(
        self,
        topic: TopicName,
        start: Annotated[
            str,
            Field(description="`newest` (newest first), `oldest`, a time of ISO 8601, or so long ago, such as `2h`."),
        ] = "newest",
        search: Annotated[
            str, Field(description='Only records with all of these words; "two words" together, -word without it.')
        ] = "",
        key: Annotated[str, Field(description="Only records with exactly this key.")] = "",
        partition: Annotated[int | None, Field(ge=0, description="Only this partition.")] = None,
        count: Annotated[int, Field(ge=1, le=RECORDS_MAX, description="At most so many records.")] = 10,
        onward: Annotated[
            str, Field(description="`onward` of the answer before: go on from there, with the same `start`.")
        ] = "",
        characters: Annotated[
            int, Field(ge=1, le=CHARACTERS_MAX, description="Cut keys, values and headers after so many characters.")
        ] = 2000,
    ) -> Result:
        """Records of a topic, or a search among them. One call looks at no more than 20,000 records; `left` says how
        many were not looked at, and `onward` where to go on. Bytes that are no text are hexadecimal; with a schema
        registry Avro, Protobuf and JSON Schema are JSON."""
        found = (await self._view.snapshot.get()).topic(topic)
        numbers = [each.partition for each in found.partitions if partition in (None, each.partition)]
        if not numbers:
            raise ValueError(f"topic {topic!r} has no partition {partition}; it has 0 to {len(found.partitions) - 1}")
        bounds = await bounds_of(self._view, topic, numbers)
        is_newest = start == "newest"
        if is_newest or start == "oldest":
            begin: Mapping[int, int] = bounds.end if is_newest else bounds.first
        else:
            begin = await offsets_at_time(self._view, topic, bounds, _moment(start))
        if onward:
            begin = {**begin, **bounds.clamp(parse_cursor(onward))}
        matches = make_filter(search, "all", key) if search or key else None
        answer = await read(self._view, topic, begin, bounds, count, matches, newest_first=is_newest)
        records: list[Result] = []
        room = TOTAL_CHARACTERS_MAX
        for record in answer.records:
            made, used = self._record(record, characters)
            room -= used
            if room < 0 and records:
                raise ValueError(
                    f"the records have more than {TOTAL_CHARACTERS_MAX:,} characters: ask for a smaller count than "
                    f"{count}, or for fewer characters than {characters} of each"
                )
            records.append(made)
        return {
            "topic": topic,
            "records": records,
            "searched": answer.searched,
            "left": answer.left,
            "onward": None if answer.onward is None else write_cursor(answer.onward),
        }

    def _record(self, record: Record, characters: int) -> tuple[Result, int]:
        """A record as an answer has it, and how long its texts are."""
        shown = {
            "key": self._decoder.show(record.topic, record.key, Format.AUTO),
            "value": self._decoder.show(record.topic, record.value, Format.AUTO),
        }
        headers = [(name, self._decoder.show(record.topic, value, Format.AUTO)) for name, value in record.headers]
        parts = [*shown.values(), *(each for _, each in headers)]
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            **{name: None if each.is_null else _cut(each.text, characters) for name, each in shown.items()},
            "headers": [[name, None if each.is_null else _cut(each.text, characters)] for name, each in headers],
            **{f"{name}_note": each.note for name, each in shown.items() if each.note},
        }, sum(min(len(each.text), characters) for each in parts)

    async def list_groups(
        self,
        contains: Contains = "",
        state: Annotated[str, Field(description="Only groups in this state, such as Stable or Empty.")] = "",
        limit: Limit = 100,
    ) -> Result:
        """Consumer groups with their state and type."""
        rows = [
            {"group": each.group_id, "state": each.state, "type": each.type, "protocol_type": each.protocol_type}
            for each in sorted(await self._view.groups.get())
            if contains in each.group_id and state.lower() in ("", each.state.lower())
        ]
        return _bounded("groups", rows, limit)

    async def describe_group(
        self, group: Annotated[str, Field(description="Name of the group.")], limit: Limit = 100
    ) -> Result:
        """A group's state, members, and how many records it is behind: in all, and by partition, the most first."""
        admin = await self._view.admin()
        described = (await admin.describe_groups([group]))[group]
        committed = await admin.list_consumer_group_offsets(group)
        if described.state == "Dead" and not committed:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r} does not exist")
        readers = {where: member for member in described.members for where in member.assignment}
        partitions = sorted(committed.keys() | readers.keys())
        ends = await self._view.end_offsets(partitions)
        rows: list[Result] = []
        for where in partitions:
            place = committed.get(where)
            end = ends.get(where)
            reader = readers.get(where)
            rows.append(
                {
                    "topic": where.topic,
                    "partition": where.partition,
                    "committed": None if place is None else place.offset,
                    "end": end,
                    "lag": None if place is None or end is None else max(0, end - place.offset),
                    "member": None if reader is None else reader.member_id,
                }
            )
        rows.sort(key=lambda row: -(row["lag"] or 0))
        members = [
            {"member": each.member_id, "client_id": each.client_id, "host": each.client_host}
            for each in described.members
        ]
        return {
            "group": group,
            "state": described.state,
            "assignor": described.protocol,
            "total_lag": sum(row["lag"] or 0 for row in rows),
            **_bounded("members", members, limit),
            **_bounded("partitions", rows, limit),
        }

    async def describe_config(
        self,
        topic: Annotated[str, Field(description="A topic; or give a broker.")] = "",
        broker: Annotated[int | None, Field(ge=0, description="The id of a broker; or give a topic.")] = None,
        everything: Annotated[bool, Field(description="Defaults as well.")] = False,
        contains: Contains = "",
    ) -> Result:
        """The settings of a topic or of a broker, and where each value comes from. Secrets are never shown."""
        if bool(topic) == (broker is not None):
            raise ValueError("give either a topic or a broker")
        resource = (
            ConfigResource(ResourceType.TOPIC, topic) if topic else ConfigResource(ResourceType.BROKER, str(broker))
        )
        rows = [
            {"name": each.name, "value": _value(each), "from": ConfigSource(each.source).name.lower()}
            for each in (await self._configs(resource)).values()
            if contains in each.name and (everything or each.source != ConfigSource.DEFAULT)
        ]
        return {"resource": str(resource), **_bounded("settings", rows, ROWS_MAX)}

    async def _configs(self, resource: ConfigResource) -> Mapping[str, ConfigEntry]:
        return (await (await self._view.admin()).describe_configs([resource]))[resource]


class Writing(Reading):
    """Tools that change the cluster as well."""

    def tools(self) -> list[Tool]:
        """Every tool."""
        return [*super().tools(), *self.writing_tools()]

    def writing_tools(self) -> list[Tool]:
        """Those that change something."""
        return [self.create_topic, self.produce_message, self.alter_topic_config, self.reset_group_offsets]

    async def create_topic(
        self,
        topic: TopicName,
        partitions: Annotated[int, Field(ge=1, le=10_000)] = 1,
        replication_factor: Annotated[int, Field(description="-1 is the default of the brokers.")] = -1,
        settings: Annotated[dict[str, str] | None, Field(description="Settings of the topic, by name.")] = None,
    ) -> Result:
        """Create a topic."""
        wanted = NewTopic(topic, partitions, replication_factor, settings or {})
        made = (await (await self._view.admin()).create_topics([wanted]))[topic]
        self._view.forget()
        return {"created": topic, "partitions": made.partitions, "replication_factor": made.replication_factor}

    async def produce_message(
        self,
        topic: TopicName,
        value: Annotated[str | None, Field(description="The value as text; null is a tombstone.")],
        key: Annotated[str | None, Field(description="The key as text.")] = None,
        headers: Annotated[dict[str, str] | None, Field(description="Headers, by name.")] = None,
        partition: Annotated[int | None, Field(ge=0, description="Else chosen by the key.")] = None,
    ) -> Result:
        """Write one record to a topic that exists."""
        (await self._view.snapshot.get()).topic(topic)
        async with self._view.producer() as producer:
            sent = await producer.send_and_wait(
                topic,
                None if value is None else value.encode(),
                None if key is None else key.encode(),
                partition=partition,
                headers=[(name, each.encode()) for name, each in (headers or {}).items()],
            )
        return {"topic": topic, "partition": sent.partition, "offset": sent.offset}

    async def alter_topic_config(
        self,
        topic: TopicName,
        name: Annotated[str, Field(description="The setting, such as retention.ms.")],
        value: Annotated[str | None, Field(description="Its new value; null resets it to the default.")],
    ) -> Result:
        """Change one setting of a topic."""
        operation = AlterOperation.DELETE if value is None else AlterOperation.SET
        change = ConfigChange(name, value, operation)
        await (await self._view.admin()).incremental_alter_configs(
            {ConfigResource(ResourceType.TOPIC, topic): [change]}
        )
        return {"topic": topic, "setting": name, "value": value}

    async def reset_group_offsets(
        self,
        group: Annotated[str, Field(description="A group without members.")],
        topic: TopicName,
        to: Annotated[
            Literal["earliest", "latest", "time"], Field(description="The new place; `time` needs the parameter time.")
        ],
        at: Annotated[str, Field(description="For `time`: ISO 8601.")] = "",
        execute: Annotated[bool, Field(description="Change the offsets; without it, only show the plan.")] = False,
    ) -> Result:
        """Reset the committed offsets of a group on one topic, or show what that would change."""
        target = parse_target(to, at, time.time_ns() // 1_000_000)
        admin = await self._view.admin()
        state = (await admin.describe_groups([group]))[group].state
        if execute and state not in RESETTABLE_STATES:
            raise ValueError(f"group {group!r} is {state}: offsets can be reset only while it has no members")
        found = (await self._view.snapshot.get()).topic(topic)
        wanted = [TopicPartition(topic, each.partition) for each in found.partitions]
        committed = {
            where: place.offset
            for where, place in (await admin.list_consumer_group_offsets(group)).items()
            if where.topic == topic
        }
        bounds = Bounds(await self._view.offsets_at(wanted, EARLIEST), await self._view.offsets_at(wanted, LATEST))
        at_time = {} if target.time_ms is None else await self._view.offsets_at(wanted, target.time_ms)
        chosen = target.resolve(bounds, committed, at_time)
        if execute:
            await admin.alter_consumer_group_offsets(
                group, {where: OffsetAndMetadata(offset) for where, offset in chosen.items()}
            )
            self._view.forget()
        rows = [
            {"partition": where.partition, "from": committed.get(where), "to": offset}
            for where, offset in sorted(chosen.items())
        ]
        return {"group": group, "topic": topic, "executed": execute, **_bounded("offsets", rows, ROWS_MAX)}


def _bounded(name: str, rows: Iterable[Result], limit: int) -> Result:
    """The first rows, and how many more there are."""
    listed = list(rows)
    more = len(listed) - limit
    return {name: listed[:limit], **({f"more_{name}": more} if more > 0 else {})}


def _value(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}… {len(text) - characters:,} more characters"


def _moment(text: str) -> int:
    try:
        return time.time_ns() // 1_000_000 - milliseconds(text)
    except DurationError:
        return parse_moment_ms(text)
