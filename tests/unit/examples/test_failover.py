"""What the demonstration of a failover makes of its acknowledgements."""

from collections import Counter
from typing import Any, cast

import pytest

from tidelog.cli.errors import CommandError
from tidelog.examples.demo.failover import Acknowledgement, Bucket, Fault, _report, draw_timeline, timeline

FAULT = Fault(broker=2, led=3, killed_s=0.6, back_s=1.2)


class Load:
    """What is left of a load when it is over."""

    def __init__(self, numbers: int) -> None:
        self.records = numbers
        self.acknowledged = {number: Acknowledgement(number * 0.1, 0.004) for number in range(numbers)}


def report(counts: dict[int, int], *, is_json: bool = False) -> None:
    _report(cast(Any, Load(3)), FAULT, Counter(counts), None, is_json=is_json)


def test_records_are_gathered_by_the_time_at_which_they_were_sent() -> None:
    found = timeline([Acknowledgement(0.1, 0.002), Acknowledgement(0.4, 0.008), Acknowledgement(1.0, 0.5)])
    assert found == [Bucket(0.0, 2, 8.0, 8.0), Bucket(1.0, 1, 500.0, 500.0)]


def test_the_timeline_marks_the_fault() -> None:
    lines = draw_timeline([Bucket(0.0, 9, 1.0, 2.0), Bucket(0.5, 9, 1.0, 900.0), Bucket(1.0, 9, 1.0, 2.0)], FAULT)
    killed, back = lines.splitlines()[2:4]
    assert killed.endswith("900.0 ms  broker 2 killed")
    assert back.endswith("2.0 ms  back")
    assert killed.count("█") > back.count("█")


def test_all_records_once_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    report({0: 1, 1: 1, 2: 1})
    assert "3 records were sent with acks=all, 3 acknowledged; 3 were read back" in capsys.readouterr().out


@pytest.mark.parametrize("is_json", [False, True])
def test_a_lost_record_is_a_failure(is_json: bool) -> None:
    with pytest.raises(CommandError, match="1 acknowledged records are lost; the first is 1"):
        report({0: 1, 2: 1}, is_json=is_json)


def test_a_record_that_is_there_twice_is_a_failure() -> None:
    with pytest.raises(CommandError, match="more than once"):
        report({0: 1, 1: 2, 2: 1})
