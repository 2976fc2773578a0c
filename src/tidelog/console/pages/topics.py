"""Topics: the list, one topic with its partitions and settings, and the acts on it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import (
    EARLIEST,
    LATEST,
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import Sizes
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Field, Form, Values, confirm_name
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, paged, parse_number
from tidelog.wire.errors import ApiError, ErrorCode

PAGE_SIZE: Final = 50
SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_TOPIC: "this topic",
    ConfigSource.DYNAMIC_BROKER: "broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER: "broker's file",
    ConfigSource.DEFAULT: "default",
}


class TopicRow(NamedTuple):
    """A topic in the list."""

    topic: TopicDescription
    replication: int
    under_replicated: int
    without_leader: int
    size_bytes: int | None
    rate: float | None


class PartitionRow(NamedTuple):
    """A partition of a topic; None for what is not known."""

    partition: PartitionDescription
    first: int | None
    end: int | None
    size_bytes: int | None


async def show_list(ask: Ask) -> Response:
    """The topics whose names contain a text."""
    snapshot = await ask.view.snapshot.get()
    wanted = ask.query("q").strip().lower()
    with_internal = ask.query("internal") == "1"
    names = [
        topic
        for name, topic in snapshot.topics.items()
        if wanted in name.lower() and (with_internal or not topic.is_internal)
    ]
    page = paged(ask, names, PAGE_SIZE)
    rows = [_row(ask, topic, sizes) for topic, sizes in zip(page.rows, await _sizes_of(ask, page.rows), strict=True)]
    return ask.render(
        "topics.html",
        area="topics",
        rows=rows,
        page=page,
        q=ask.query("q"),
        with_internal=with_internal,
        throughput=ask.view.sampler.throughput,
    )


async def _sizes_of(ask: Ask, topics: Sequence[TopicDescription]) -> list[int | None]:
    """The bytes of each topic on all its replicas."""
    return [_total(sizes) for sizes in (await ask.view.sizes(topics)).values()]


def _total(sizes: Sizes) -> int | None:
    return sum(sum(replicas.values()) for replicas in sizes.values()) if sizes else None


def _row(ask: Ask, topic: TopicDescription, size_bytes: int | None) -> TopicRow:
    return TopicRow(
        topic,
        max((len(each.replicas) for each in topic.partitions), default=0),
        sum(len(each.in_sync) < len(each.replicas) for each in topic.partitions),
        sum(each.leader_id < 0 for each in topic.partitions),
        size_bytes,
        ask.view.sampler.throughput.rate_of(topic.name),
    )


async def show_topic(ask: Ask) -> Response:
    """One topic: its partitions, a page of them."""
    topic = await ask.view.topic(ask.part("topic"))
    page = paged(ask, topic.partitions, PAGE_SIZE)
    chosen = [TopicPartition(topic.name, each.partition) for each in page.rows if each.leader_id >= 0]
    firsts, ends, found = await asyncio.gather(
        ask.view.offsets_at(chosen, EARLIEST), ask.view.offsets_at(chosen, LATEST), ask.view.sizes([topic])
    )
    sizes = found[topic.name]
    rows = []
    for each in page.rows:
        where = TopicPartition(topic.name, each.partition)
        rows.append(PartitionRow(each, firsts.get(where), ends.get(where), sizes.get(each.leader_id, {}).get(where)))
    return await show_part(
        ask,
        topic,
        "partitions",
        "topic.html",
        rows=rows,
        page=page,
        size_bytes=_total(sizes),
        replication=max((len(each.replicas) for each in topic.partitions), default=0),
        series=ask.view.sampler.throughput.of_topic(topic.name),
        rate=ask.view.sampler.throughput.rate_of(topic.name),
    )


async def show_settings(ask: Ask) -> Response:
    """The settings of a topic."""
    topic = await ask.view.topic(ask.part("topic"))
    found = await _settings(ask, topic.name)
    wanted = ask.query("q").strip().lower()
    entries = [entry for name, entry in sorted(found.items()) if wanted in name.lower()]
    entries.sort(key=lambda entry: entry.source != ConfigSource.DYNAMIC_TOPIC)
    return await show_part(
        ask,
        topic,
        "settings",
        "topic_settings.html",
        entries=entries,
        sources=SOURCES,
        own_source=int(ConfigSource.DYNAMIC_TOPIC),
        q=ask.query("q"),
    )


async def _settings(ask: Ask, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return (await (await ask.view.admin()).describe_configs([resource], include_documentation=True))[resource]


async def show_part(
    ask: Ask, topic: TopicDescription, tab: str, template: str, status: int = 200, **context: Any
) -> Response:
    """A page of a topic, below its name and the tabs of its pages."""
    waiting = await ask.view.waiting(topic)
    return ask.render(template, status, area="topics", topic=topic, tab=tab, waiting=waiting, **context)


def topic_url(topic: str, *parts: str) -> str:
    """The path of a topic or of a page below it."""
    from urllib.parse import quote

    return "/".join(["/topics", *(quote(part, safe="") for part in (topic, *parts))])


# Acts.


async def _create_form(ask: Ask) -> Form:
    del ask
    return Form(
        "Create a topic",
        [
            Field("name", "Name", hint="Letters, digits, dots, underscores and dashes; at most 249."),
            Field(
                "partitions", "Partitions", kind="number", required=False, hint="Empty: the broker's num.partitions."
            ),
            Field(
                "replication",
                "Replication factor",
                kind="number",
                required=False,
                hint="Empty: the broker's default.replication.factor.",
            ),
            Field(
                "settings",
                "Settings",
                kind="textarea",
                required=False,
                hint="One name=value per line, such as retention.ms=3600000.",
            ),
        ],
        "Create",
        "/topics",
    )


async def _create(ask: Ask, values: Values) -> Done:
    name = values["name"].strip()
    partitions, replication = (
        parse_number(label, given, 1, 1 << 20) if (given := values.get(key, "").strip()) else -1
        for key, label in (("partitions", "Partitions"), ("replication", "Replication factor"))
    )
    configs: dict[str, str] = {}
    for line in values.get("settings", "").splitlines():
        if line.strip():
            setting, equals, value = line.partition("=")
            if not equals or not setting.strip():
                raise PageError(400, "A setting cannot be read", f"{line!r} is not name=value.")
            configs[setting.strip()] = value.strip()
    await (await ask.view.admin()).create_topics([NewTopic(name, partitions, replication, configs)])
    return Done(topic_url(name), f"Topic {name} was created.")


async def _delete_form(ask: Ask) -> Form:
    topic = await ask.view.topic(ask.part("topic"))
    ends = await ask.view.end_offsets([TopicPartition(topic.name, each.partition) for each in topic.partitions])
    return Form(
        f"Delete topic {topic.name}",
        [confirm_name(topic.name, "topic")],
        "Delete the topic",
        topic_url(topic.name),
        [
            f"The topic, its {len(topic.partitions):,} partitions and all their records are deleted.",
            "This cannot be undone.",
            f"{sum(ends.values()):,} records were written to it so far.",
            *(["It is an internal topic of the cluster: deleting it can stop the cluster."] * topic.is_internal),
        ],
        is_danger=True,
    )


async def _delete(ask: Ask, values: Values) -> Done:
    del values
    name = ask.part("topic")
    await (await ask.view.admin()).delete_topics([name])
    return Done("/topics", f"Topic {name} was deleted.")


async def _widen_form(ask: Ask) -> Form:
    topic = await ask.view.topic(ask.part("topic"))
    return Form(
        f"Add partitions to {topic.name}",
        [Field("total", "Partitions in all", str(len(topic.partitions) + 1), kind="number")],
        "Add partitions",
        topic_url(topic.name),
        [
            f"The topic has {len(topic.partitions):,} partitions. They cannot be removed later.",
            "Keys may map to other partitions than before.",
        ],
    )


async def _widen(ask: Ask, values: Values) -> Done:
    name = ask.part("topic")
    total = parse_number("Partitions in all", values["total"], 1, 1 << 20)
    await (await ask.view.admin()).create_partitions({name: total})
    return Done(topic_url(name), f"Topic {name} has {total:,} partitions now.")


async def _setting_form(ask: Ask) -> Form:
    topic, name = ask.part("topic"), ask.part("name")
    entry = (await _settings(ask, topic)).get(name)
    if entry is None:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"topics have no setting {name!r}")
    is_own = entry.source == ConfigSource.DYNAMIC_TOPIC
    return Form(
        f"{name} of {topic}",
        [
            Field("value", name, entry.value or "", required=False, hint=entry.documentation or ""),
            *(
                [Field("reset", "Remove the topic's own value and use the broker's", kind="checkbox", required=False)]
                * is_own
            ),
        ],
        "Save",
        topic_url(topic, "settings"),
        [f"The value comes from: {SOURCES.get(entry.source, 'unknown')}."],
    )


async def _set(ask: Ask, values: Values) -> Done:
    topic, name = ask.part("topic"), ask.part("name")
    is_reset = values.get("reset") == "1"
    change = (
        ConfigChange(name, None, AlterOperation.DELETE) if is_reset else ConfigChange(name, values.get("value", ""))
    )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    await (await ask.view.admin()).incremental_alter_configs({resource: [change]})
    said = f"{name} of {topic} has the broker's value again." if is_reset else f"{name} of {topic} was changed."
    return Done(topic_url(topic, "settings"), said)


AREA = Area(
    pages={
        "/topics": show_list,
        "/topics/{topic}": show_topic,
        "/topics/{topic}/settings": show_settings,
    },
    acts=[
        Act("/create-topic", _create_form, _create),
        Act("/topics/{topic}/delete", _delete_form, _delete),
        Act("/topics/{topic}/partitions", _widen_form, _widen),
        Act("/topics/{topic}/settings/{name}", _setting_form, _set),
    ],
)
