"""Makes `golden.txt`: what Apache Kafka's own serializer writes for the objects of `samples`.

Needs a JDK, 17 or newer, and a folder with the jars of Kafka 3.9.1 and Jackson: `libs` of Kafka's binary release, or
what Maven collects (`mvn dependency:copy-dependencies`) for `org.apache.kafka:kafka_2.13:3.9.1`.

    PYTHONPATH=src python -m tests.compat.wire.make_golden path/to/libs path/to/kafka-clients-4.4.0.jar

APIs that Kafka 3.9.1 does not have yet (`FROM_4_4`) come from kafka-clients 4.4.0, whose jar is the second argument.

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
FROM_4_4 = 76
"""Share groups (KIP-932) and all later APIs."""


def main(jars: str, newer_jar: str) -> None:
    lines = _samples(f"{jars}/*", range(FROM_4_4)) + _samples(f"{newer_jar}:{jars}/*", range(FROM_4_4, 2**15))
    GOLDEN.write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} samples written to {GOLDEN}")


def _samples(class_path: str, api_keys: range) -> list[str]:
    names, requests = [], []
    for cls, version in all_versions():
        if cls.api_key not in api_keys:
            continue
        for make in (filled, sparse):
            names.append(f"{cls.__name__} {version} {make.__name__}")
            value = to_json(make(cls, version), version)
            requests.append(json.dumps({"message": cls.__name__, "version": version, "value": value}))
    command = ["java", "-cp", class_path, str(HERE / "GoldenBytes.java")]
    result = subprocess.run(command, input="\n".join(requests), capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stderr)
    return [f"{name} {line}" for name, line in zip(names, result.stdout.splitlines(), strict=True)]


if __name__ == "__main__":
    main(*sys.argv[1:])
