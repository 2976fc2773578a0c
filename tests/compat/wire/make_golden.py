"""Makes `golden.txt` and `golden-4.4.txt`: what Apache Kafka's own serializer writes for the objects of `samples`.

Needs a JDK, 17 or newer, and a folder with the jars of Kafka and Jackson: `libs` of Kafka's binary release, or what
Maven collects (`mvn dependency:copy-dependencies`) for `org.apache.kafka:kafka_2.13:3.9.1`. The first file has the
messages and versions that it lists already, made by 3.9.1; the second has all others, made by `kafka-clients` 4.4.0.

    PYTHONPATH=src python -m tests.compat.wire.make_golden path/to/libs-3.9.1
    PYTHONPATH=src python -m tests.compat.wire.make_golden path/to/libs-4.4.0 --later

Each object goes to Kafka as JSON; `GoldenBytes.java` has Kafka's generated converter read it and Kafka's generated
message class write it. No code of ours takes part in making the bytes. Each line of the file is

    <message> <version> <filled or sparse> <bytes in hex>
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.compat.wire.samples import all_versions, filled, sparse, to_json

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.txt"
LATER = HERE / "golden-4.4.txt"


def main(jars: str, *options: str) -> None:
    is_later = "--later" in options
    known = {tuple(line.split()[:2]) for line in GOLDEN.read_text().splitlines()}
    names, requests = [], []
    for cls, version in all_versions():
        if ((cls.__name__, str(version)) in known) is is_later:
            continue
        for make in (filled, sparse):
            names.append(f"{cls.__name__} {version} {make.__name__}")
            value = to_json(make(cls, version), version)
            requests.append(json.dumps({"message": cls.__name__, "version": version, "value": value}))
    command = ["java", "-cp", f"{jars}/*", str(HERE / "GoldenBytes.java")]
    result = subprocess.run(command, input="\n".join(requests), capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stderr)
    lines = result.stdout.splitlines()
    written = LATER if is_later else GOLDEN
    written.write_text("".join(f"{name} {line}\n" for name, line in zip(names, lines, strict=True)))
    print(f"{len(names)} samples written to {written}")


if __name__ == "__main__":
    main(*sys.argv[1:])
