"""Dynamic passwords as Apache Kafka encrypts them: each side reads what the other wrote."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from tidelog.security.password_encoder import CBC, GCM, PasswordEncoder

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

SECRET = "the sécret"
CASES = [
    (cipher, bits, text) for cipher in (CBC, GCM) for bits in (128, 256) for text in ("x", "pässwörd 😀", "y" * 100)
]


def test_kafka_and_we_read_each_others_passwords() -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    lines = []
    for cipher, bits, text in CASES:
        ours = PasswordEncoder(secret=SECRET, cipher_algorithm=cipher, key_length=bits).encode(text)
        lines += [f"{SECRET}\t{cipher}\t{bits}\tencode\t{text}", f"{SECRET}\t{cipher}\t{bits}\tdecode\t{ours}"]
    source = str(Path(__file__).with_name("PasswordOracle.java"))
    done = subprocess.run(
        ["java", *apache_kafka.TOOL_FLAGS, "-Dfile.encoding=UTF-8", "-cp", apache_kafka.class_path(), source],
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    for (cipher, _, text), theirs, read in zip(CASES, answers[::2], answers[1::2], strict=True):
        assert read == text, cipher
        assert PasswordEncoder(secret=SECRET, cipher_algorithm=cipher).decode(theirs) == text
