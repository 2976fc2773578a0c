"""Delayed records survive `kill -9`: each acknowledged one is delivered once, and none before its time."""

import pytest

from tests.compat.clients import delayed_kills


@pytest.mark.parametrize("times", [1, pytest.param(6, marks=pytest.mark.long)])
def test_each_is_delivered_once_and_never_early(times: int) -> None:
    outcome = delayed_kills.run(times, seed=times)
    assert outcome.acknowledged > 0
    assert (outcome.kills, outcome.missing, outcome.doubled, outcome.early) == (times, [], [], [])
