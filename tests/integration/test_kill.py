"""`kill -9` under load, again and again: what was acknowledged is there, once and in order.

`TIDELOG_KILLS` says how often and `TIDELOG_SEED` replays a run; the seed is printed.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.effort import usually
from tests.integration import kill_loop

KILLS = int(os.environ.get("TIDELOG_KILLS", "10"))
MANY_KILLS = max(40, KILLS)


@pytest.mark.timeout(60 + 4 * MANY_KILLS)
@pytest.mark.parametrize("kills", usually([KILLS], sorted({KILLS, MANY_KILLS})))
def test_whatever_was_acknowledged_survives_every_kill(capsys: pytest.CaptureFixture[str], kills: int) -> None:
    """Killed while writing, while stopping and while starting, with torn files between; see `kill_loop`."""
    seed = int(os.environ.get("TIDELOG_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    outcome = kill_loop.run(kills, seed)
    with capsys.disabled():
        print(f"\n{outcome} (seed {seed})")
    assert outcome.stored_batches == outcome.acknowledged_batches
    assert outcome.segments > len(kill_loop.KEYS), "segments were rolled under way"
