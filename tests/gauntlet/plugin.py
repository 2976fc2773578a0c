"""A plugin of pytest that plants a mistake for a whole run: `pytest -p tests.gauntlet.plugin --mistake NAME`."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import Phase, settings

from tests.gauntlet.mistakes import MISTAKES
from tests.gauntlet.planting import planted

# A counterexample need not be a small one.
settings.register_profile(
    "gauntlet", deadline=None, max_examples=20, phases=(Phase.explicit, Phase.reuse, Phase.generate), database=None
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mistake", required=True, help="the name of the mistake to plant")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("mistake")
    (entry,) = (each for each in MISTAKES if each.name == name)
    undo = ExitStack()
    undo.enter_context(planted(entry))
    config.add_cleanup(undo.close)
