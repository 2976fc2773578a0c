"""`tidelog topic`: create, list, describe, alter, compact and delete topics."""

import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import TopicName, parse_assignments
from tidelog.cli._placements import Plan, await_moves, current_plan, usable_brokers, with_replication_factor
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table, uuid_text
from tidelog.cli.progress import progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import (
    AlterOperation,
    Compaction,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)
from tidelog.client.errors import ApiError, ClientError
from tidelog.wire.errors import ErrorCode

_POLL_S: Final = 0.1
_STEPS: Final = 100


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    topic = noun(application, "topic", "Create, list, describe, alter, compact and delete topics.")
    verb(topic, "create", create, "tidelog topic create orders --partitions 3 -c retention.ms=86400000")
    verb(topic, "list", list_topics, "tidelog topic list --format json")
    verb(topic, "describe", describe, "tidelog topic describe orders")
    verb(topic, "alter", alter, "tidelog topic alter orders --partitions 6 -c retention.ms=3600000")
    verb(topic, "compact", compact, "tidelog topic compact --now accounts")
    verb(topic, "delete", delete, "tidelog topic delete orders")


def parse_replica_assignment(text: str | None) -> list[list[int]]:
    """`0:1,1:2` as [[0, 1], [1, 2]]; nothing for None."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise CommandError(f"--replica-assignment {text!r} is not broker:broker,… with numbers, like 0:1,1:2") from None


def create(
    connection: Connection,
    topic: TopicName,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions.", show_default="the broker's num.partitions")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="How many replicas each partition has.",
            show_default="the broker's default.replication.factor",
        ),
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="A topic setting; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(help="Brokers per partition instead of counts: 0:1,1:2 is two partitions.", metavar="IDS"),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")] = False,
) -> Result:
    """Create a topic."""
    wanted = NewTopic(
        topic,
        partitions,
        replication_factor,
        parse_assignments("--config", config or ()),
        parse_replica_assignment(replica_assignment),
    )
    with connection.admin() as admin:
        try:
            made = admin.create_topics([wanted], validate_only=validate_only)[topic]
        except ApiError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            return Result({"name": topic, "created": False}, f"Topic {topic} already exists.")
    document = {
        "name": made.name,
        "topic_id": uuid_text(made.topic_id),
        "partitions": made.partitions,
        "replication_factor": made.replication_factor,
        "created": not validate_only,
    }
    return Result(document, f"Topic {topic} could be created." if validate_only else f"Created topic {topic}.")


def list_topics(
    connection: Connection,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Leave out internal topics.")] = False,
) -> Result:
    """List the topics of a cluster."""
    with connection.admin() as admin:
        topics = admin.list_topics(include_internal=not exclude_internal)
    document = [
        {
            "name": topic.name,
            "topic_id": uuid_text(topic.topic_id),
            "partitions": topic.partition_count,
            "internal": topic.is_internal,
        }
        for topic in topics
    ]
    return Result(document, "\n".join(topic.name for topic in topics))


def describe(
    connection: Connection,
    topics: Annotated[
        list[str] | None, typer.Argument(help="Topics to describe; all if none is named.", metavar="TOPIC…")
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only partitions without a leader.")] = False,
) -> Result:
    """Describe topics: id, partitions, leaders, replicas and settings that differ from the defaults."""
    with connection.admin() as admin:
        names = topics or [topic.name for topic in admin.list_topics(include_internal=True)]
        found = sorted(admin.describe_topics(names).values())
        if under_replicated or unavailable:
            found = _troubled(found, under_replicated=under_replicated, unavailable=unavailable)
        overrides = _overrides(admin, [topic.name for topic in found])
    described = [(topic, overrides[topic.name]) for topic in found]
    lines = [line for topic, configs in described for line in _lines(topic, configs)]
    return Result([_as_json(topic, configs) for topic, configs in described], "\n".join(lines))


def _troubled(found: list[TopicDescription], *, under_replicated: bool, unavailable: bool) -> list[TopicDescription]:
    """Topics with only their under-replicated or unavailable partitions."""
    troubled = []
    for topic in found:
        partitions = tuple(
            each
            for each in topic.partitions
            if (under_replicated and len(each.in_sync) < len(each.replicas)) or (unavailable and each.leader_id < 0)
        )
        if partitions:
            troubled.append(topic._replace(partitions=partitions))
    return troubled


def _overrides(admin: Admin, topics: list[str]) -> dict[str, dict[str, str | None]]:
    found = admin.describe_configs(ConfigResource(ResourceType.TOPIC, topic) for topic in topics)
    return {
        resource.name: {
            entry.name: entry.value for entry in entries.values() if entry.source == ConfigSource.DYNAMIC_TOPIC
        }
        for resource, entries in found.items()
    }


def _replication_factor(topic: TopicDescription) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _as_json(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.in_sync),
                "offline_replicas": list(each.offline),
            }
            for each in topic.partitions
        ],
    }


def _lines(topic: TopicDescription, configs: dict[str, str | None]) -> Iterator[str]:
    """A topic as Kafka's own tool shows it."""
    settings = ",".join(f"{name}={value}" for name, value in configs.items())
    yield (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {_replication_factor(topic)}\tConfigs: {settings}"
    )
    for each in topic.partitions:
        leader = each.leader_id if each.leader_id >= 0 else "none"
        yield (
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {_joined(each.replicas)}\tIsr: {_joined(each.in_sync)}"
        )


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def alter(
    connection: Connection,
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", help="New number of partitions; it can only grow.", show_default="left as it is"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            help="New number of replicas of each partition. Leaders stay where they are.",
            min=1,
            show_default="left as it is",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for new replicas to be in sync, showing progress.")] = True,
    replica_assignment: Annotated[
        str | None, typer.Option(help="Brokers of the new partitions: 0:1,1:2 is two of them.", metavar="IDS")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="Set a topic setting.", metavar="NAME=VALUE")
    ] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", help="Reset a setting to its default.", metavar="NAME")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")] = False,
) -> Result:
    """Change the partition count, the number of replicas or the settings of a topic."""
    changes = [ConfigChange(name, value) for name, value in parse_assignments("--config", config or ()).items()]
    changes += [ConfigChange(name, operation=AlterOperation.DELETE) for name in delete_config or ()]
    if partitions is None and replication_factor is None and not changes:
        raise CommandError("nothing to change; give --partitions, --replication-factor, --config or --delete-config")
    with connection.admin() as admin:
        if changes:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)
        if partitions is not None:
            total = NewPartitions(partitions, parse_replica_assignment(replica_assignment))
            admin.create_partitions({topic: total}, validate_only=validate_only)
        if replication_factor is not None:
            moves = _moves(admin, topic, replication_factor)
            if moves and not validate_only:
                admin.alter_partition_reassignments(moves)
                if wait:
                    await_moves(admin, f"replicas of {topic}", moves)
    said = [
        *([f"{partitions} partitions"] if partitions is not None else []),
        *([f"{replication_factor} replicas"] if replication_factor is not None else []),
        *(f"{each.name}={each.value}" for each in changes if each.value is not None),
        *(f"{each.name} as by default" for each in changes if each.value is None),
    ]
    text = f"{f'Topic {topic} could be altered' if validate_only else f'Altered topic {topic}'}: {', '.join(said)}."
    return Result({"name": topic, "altered": not validate_only}, text)


def _moves(admin: Admin, topic: str, replication_factor: int) -> Plan:
    """The new replicas of the partitions that have more or fewer than so many."""
    current = current_plan(admin, [topic])
    plan = with_replication_factor(current, usable_brokers(admin), replication_factor)
    return {where: replicas for where, replicas in plan.items() if len(current[where]) != replication_factor}


def compact(
    connection: Connection,
    topic: TopicName,
    now: Annotated[
        bool, typer.Option("--now", help="Compact now, including the newest segment; without it, only show the state.")
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it is done, showing progress.")] = True,
) -> Result:
    """Compact a topic now, whatever its dirty ratio, or show the state of its compaction."""
    with connection.admin() as admin:
        partitions = [each.partition for each in partitions_or_all(admin, topic, partition)]
        states = admin.compact_topic(topic, partitions, only_status=not now)
        if wait:
            states = _wait(admin, topic, partitions, states)
    table = Table(
        headings=("PARTITION", "BROKER", "STATE", "BYTES-BEFORE", "BYTES-AFTER"),
        rows=[
            (state.partition, state.broker, state.state or "-", _bytes(state.bytes_before), _bytes(state.bytes_after))
            for state in states
        ],
    )
    failed = [state for state in states if state.state == "failed"]
    return Result(
        [{**state._asdict(), "share_done": round(state.share_done, 3)} for state in states],
        table,
        error=_not_compacted(topic, failed[0]) if failed else None,
    )


def _not_compacted(topic: str, state: Compaction) -> CommandError:
    return CommandError(f"{topic}-{state.partition} could not be compacted: {state.message}")


def _wait(admin: Admin, topic: str, partitions: list[int], states: list[Compaction]) -> list[Compaction]:
    shown = 0
    with progress(f"compacting {topic}", _STEPS) as bar:
        while True:
            done = int(_STEPS * sum(state.share_done for state in states) / max(len(states), 1))
            bar.advance(max(done - shown, 0))
            shown = max(shown, done)
            if all(state.is_over for state in states):
                return states
            time.sleep(_POLL_S)
            states = admin.compact_topic(topic, partitions, only_status=True)


def _bytes(count: int) -> int | str:
    return count if count >= 0 else "-"


def delete(
    connection: Connection,
    topics: Annotated[list[str], typer.Argument(help="Topics to delete.", metavar="TOPIC…", show_default=False)],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if a topic does not exist.")] = False,
) -> Result:
    """Delete topics and all their records."""
    deleted: list[str] = []
    failure: Exception | None = None
    with connection.admin() as admin:
        for topic in topics:
            try:
                admin.delete_topics([topic])
            except (ApiError, ClientError) as error:
                if if_exists and isinstance(error, ApiError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                failure = error  # what was deleted before is deleted
                break
            deleted.append(topic)
    return Result({"deleted": deleted}, "\n".join(f"Deleted topic {topic}." for topic in deleted), error=failure)
