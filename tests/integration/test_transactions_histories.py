"""Random runs under crashes, judged by their histories alone.

`TIDELOG_HISTORY_SECONDS=60 TIDELOG_HISTORY_SEEDS=1,2,3` makes them longer and other ones.
"""

import os

import pytest

from tests.effort import usually
from tests.integration.transaction_histories import Outcome, check
from tests.integration.transaction_workload import run

SECONDS = float(os.environ.get("TIDELOG_HISTORY_SECONDS", "4"))
SEEDS = [int(text) for text in os.environ.get("TIDELOG_HISTORY_SEEDS", "1,2").split(",")]


@pytest.mark.timeout(120 + 3 * SECONDS)
@pytest.mark.parametrize("seed", usually(SEEDS[:1], SEEDS))
def test_histories_under_crashes_hold_no_anomaly(seed: int) -> None:
    history, offsets, crashes = run(seed, SECONDS)
    outcomes = {outcome: sum(operation.outcome is outcome for operation in history) for outcome in Outcome}
    print(f"seed {seed}: {crashes} crashes,", {outcome.value: count for outcome, count in outcomes.items()})
    assert crashes > 0
    assert outcomes[Outcome.COMMITTED] > 10
    assert outcomes[Outcome.ABORTED] > 0
    assert check(history, offsets) == []
