"""Plants a mistake: the changed text of a function is compiled, and its code replaces the function's own.

The function object stays, so that every name by which it was imported, every method that was bound and every property
that was built from it has the mistake. Nothing of the product is written to, and the code is put back at the end.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Final

_FUTURES: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class NotAnchoredError(AssertionError):
    """The code is not as the table says: the entry has to follow it."""


@dataclass(frozen=True)
class Edit:
    """One change of one function: `right` occurs in its text once, and `wrong` takes its place."""

    place: str
    """`package.module:Class.function`."""
    right: str
    wrong: str


@dataclass(frozen=True)
class Mistake:
    """One entry of the table."""

    name: str
    area: str
    """Which tests are expected to find it: see `AREAS`."""
    edits: tuple[Edit, ...]
    known: str = ""
    """Where Kafka, or another implementation, has made it."""
    needs_delayed: bool = False
    """Whether every seed is to have delayed records."""
    needs_shares: bool = False
    """Whether every seed is to have a share group."""


def mistake(
    name: str, area: str, place: str, right: str, wrong: str, *more: tuple[str, str, str], known: str = ""
) -> Mistake:
    """An entry with one change, or several."""
    edits = (Edit(place, right, wrong), *(Edit(*each) for each in more))
    return Mistake(name, area, edits, known, needs_delayed=area == "delayed", needs_shares=area == "shares")


@contextmanager
def planted(entry: Mistake) -> Iterator[None]:
    """Run with a mistake in place. Raises NotAnchoredError if the code is not as the table says."""
    texts: dict[str, list[Edit]] = {}
    for edit in entry.edits:
        texts.setdefault(edit.place, []).append(edit)
    with ExitStack() as undo:
        for place, edits in texts.items():
            function = find_function(place)
            undo.callback(partial(setattr, function, "__code__", function.__code__))
            function.__code__ = _changed_code(function, place, edits)
        yield


def find_function(place: str) -> FunctionType:
    """The function at a place, without what decorators have put around it."""
    module, _, path = place.partition(":")
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
    except (ImportError, AttributeError) as error:
        raise NotAnchoredError(f"{place} is not there any more: {error}") from error
    while not isinstance(found, FunctionType):
        inner = _unwrapped(found)
        if inner is None:
            raise NotAnchoredError(f"{place} is not a function any more: {found!r}")
        found = inner
    return inspect.unwrap(found)


def _unwrapped(found: Any) -> Any:
    if isinstance(found, property):
        return found.fget
    if isinstance(found, cached_property):
        return found.func
    return getattr(found, "__func__", None) or getattr(found, "__wrapped__", None)


def _changed_code(function: FunctionType, place: str, edits: list[Edit]) -> CodeType:
    text = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        count = text.count(edit.right)
        if count != 1:
            raise NotAnchoredError(f"{place} has {count} times, not once:\n{edit.right}\nThis is its text:\n{text}")
        text = text.replace(edit.right, edit.wrong)
    tree = ast.parse(text)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef), f"{place} is defined with def"
    definition.decorator_list.clear()
    free = function.__code__.co_freevars
    if free:
        # `super()` and variables of an enclosing function: parameters of a function around it stand for them.
        outer = ast.parse(f"def around({', '.join(free)}):\n    pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        outer.body = [definition]
        tree.body = [outer]
    compiled = compile(
        ast.fix_missing_locations(tree),
        function.__code__.co_filename,
        "exec",
        flags=function.__code__.co_flags & _FUTURES,
        dont_inherit=True,
    )
    code = _code_named(compiled, definition.name)
    if code.co_freevars != free:
        raise NotAnchoredError(f"{place} with the mistake uses {code.co_freevars} of what is around it, not {free}")
    return code


def _code_named(code: CodeType, name: str) -> CodeType:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return next((each for each in inner if each.co_name == name), None) or _code_named(inner[0], name)
