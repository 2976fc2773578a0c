"""Every record of the metadata log against the bytes of Apache Kafka 4.3.1, which `make_golden` has collected."""

import pytest

from tests.compat.metadata_log.make_golden import GOLDEN, SAMPLES, all_samples
from tidelog.metadata.quorum.frames import decode_value, encode_value

_GOLDEN = {tuple(line.split()[:3]): bytes.fromhex(line.split()[3]) for line in GOLDEN.read_text().splitlines()}


def test_every_kind_and_version_has_golden_bytes() -> None:
    assert {(record.__name__, str(version), sample) for record, version, sample in all_samples()} == set(_GOLDEN)


@pytest.mark.parametrize("sample", SAMPLES)
def test_records_are_written_and_read_as_kafka_does(sample: str) -> None:
    for record, version, each in all_samples():
        if each == sample:
            golden = _GOLDEN[record.__name__, str(version), sample]
            ours = SAMPLES[sample](record, version)
            assert encode_value(ours, version).hex() == golden.hex(), f"{record.__name__} v{version}"
            assert decode_value(golden) == ours, f"{record.__name__} v{version}"
