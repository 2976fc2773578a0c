"""Makes `golden.txt`: what Apache Kafka's own serializer writes for a made-up record of every kind and version.

Needs a JDK, 17 or newer, and a folder with the jars of `org.apache.kafka:kafka_2.13:4.3.1` and what they depend on.

    PYTHONPATH=src python -m tests.compat.metadata_log.make_golden path/to/libs

Each record goes to Kafka as JSON; `GoldenRecords.java` has Kafka write it. Each line of the file is

    <record> <version> <filled or sparse> <bytes in hex>
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.compat.wire.samples import filled, sparse, to_json
from tidelog.metadata.quorum.records import RECORDS
from tidelog.wire.schema import Message

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.txt"
SAMPLES = {"filled": filled, "sparse": sparse}


def all_samples() -> Iterator[tuple[type[Message], int, str]]:
    """Every kind and version of record, and each way to fill it."""
    for record in RECORDS.values():
        first, last = record.versions
        for version in range(first, last + 1):
            for sample in SAMPLES:
                yield record, version, sample


def main(jars: str) -> None:
    names, asked = [], []
    for record, version, sample in all_samples():
        names.append(f"{record.__name__} {version} {sample}")
        value = to_json(SAMPLES[sample](record, version), version)
        asked.append(json.dumps({"record": record.__name__, "version": version, "value": value}))
    command = ["java", "-Xmx256M", "-cp", f"{jars}/*", str(HERE / "GoldenRecords.java")]
    result = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stderr)
    lines = result.stdout.splitlines()
    GOLDEN.write_text("".join(f"{name} {line}\n" for name, line in zip(names, lines, strict=True)))
    print(f"{len(names)} samples written to {GOLDEN}")


if __name__ == "__main__":
    main(*sys.argv[1:])
