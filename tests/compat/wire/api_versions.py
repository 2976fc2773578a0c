"""The versions that Kafka 3.9.1 in ZooKeeper mode says it serves; `api_versions.txt` is its answer, written down."""

from pathlib import Path

Versions = tuple[int, int]


def of_kafka() -> dict[int, Versions]:
    """The oldest and the newest version of each API, by its key."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {int(key): (int(oldest), int(newest)) for key, _name, oldest, newest in rows}
