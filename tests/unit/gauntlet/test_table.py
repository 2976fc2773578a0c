"""Every mistake of the gauntlet fits the code as it is, changes it while it is planted, and leaves nothing behind."""

from __future__ import annotations

import os

import pytest

from tests.gauntlet.mistakes import FOUND_BY_FEW_SEEDS, MISTAKES
from tests.gauntlet.planting import Mistake, NotAnchoredError, find_function, mistake, planted
from tests.gauntlet.search import AREAS

HERE = "tests.unit.gauntlet.test_table"


@pytest.mark.parametrize("entry", MISTAKES, ids=lambda entry: entry.name)
def test_a_mistake_is_where_the_table_says(entry: Mistake) -> None:
    """One that fails here must follow the code that it was planted into."""
    functions = {find_function(edit.place) for edit in entry.edits}
    right = {function: function.__code__ for function in functions}
    with planted(entry):
        assert all(function.__code__ != code for function, code in right.items())
    assert all(function.__code__ is code for function, code in right.items())


def test_the_table_has_sixty_mistakes_or_more_with_names_of_their_own() -> None:
    assert len({entry.name for entry in MISTAKES}) == len(MISTAKES) >= 60


def test_every_area_has_tests() -> None:
    assert {entry.area for entry in MISTAKES} == set(AREAS)
    for folders in AREAS.values():
        assert all(os.path.isdir(folder) for folder in folders), folders


class Counter:
    """What mistakes are planted into here."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int = 1) -> int:
        self.count += by
        return self.count

    @property
    def doubled(self) -> int:
        return self.count * 2


class Loud(Counter):
    def add(self, by: int = 1) -> int:
        return super().add(by) + 100


def test_methods_that_were_bound_before_have_the_mistake_too() -> None:
    counter = Counter()
    add = counter.add
    with planted(mistake("m", "groups", f"{HERE}:Counter.add", "self.count += by", "self.count -= by")):
        assert add() == -1
    assert add(2) == 1


def test_properties_and_calls_of_super_can_be_changed() -> None:
    loud = Loud()
    with planted(
        mistake(
            "m",
            "groups",
            f"{HERE}:Loud.add",
            "+ 100",
            "+ 1000",
            (f"{HERE}:Counter.doubled", "* 2", "* 3"),
        )
    ):
        assert loud.add() == 1001
        assert loud.doubled == 3
    assert loud.add() == 102
    assert loud.doubled == 4


@pytest.mark.parametrize(
    ("place", "right"),
    [
        (f"{HERE}:Counter.add", "self.count *= by"),
        (f"{HERE}:Counter.add", "self"),
        (f"{HERE}:Counter.gone", "self"),
        (f"{HERE}:Counter", "self"),
        ("tests.unit.gauntlet.no_such_module:f", "self"),
    ],
)
def test_a_mistake_that_does_not_fit_fails_loudly(place: str, right: str) -> None:
    entry = mistake("m", "groups", place, right, "pass")
    with pytest.raises(NotAnchoredError), planted(entry):
        pytest.fail("it was planted")
    assert Counter().add() == 1


def test_the_twenty_that_are_looked_for_are_in_the_table() -> None:
    assert len(FOUND_BY_FEW_SEEDS) == 20
    assert {entry.name for entry in MISTAKES}.issuperset(FOUND_BY_FEW_SEEDS)
