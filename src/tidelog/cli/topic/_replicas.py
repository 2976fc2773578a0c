"""Replica assignments as Kafka's tools write them: partitions by comma, the brokers of one partition by colon."""

from tidelog.cli.errors import CommandError


def parse_replica_assignment(text: str | None) -> list[list[int]]:
    """`0:1,1:2` as [[0, 1], [1, 2]]; nothing for None."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise CommandError(f"--replica-assignment {text!r} is not broker:broker,… with numbers, like 0:1,1:2") from None
