"""Acts: everything in the console that changes the cluster. One form, one function, one way to show both.

An act has a `form`, which describes the fields and names what will happen, and a `perform`, which does it with the
submitted values. `perform` returns where to go and what to say, or another form: a preview. An error of the cluster or
of a value shows the form again, with its values and the reason. Acts that destroy something ask for its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from tidelog.console.errors import PageError, explain
from tidelog.console.web import Ask


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. `must_equal` is what has to be typed before something is destroyed."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    hint: str = ""
    options: Sequence[tuple[str, str]] = ()
    required: bool = True
    must_equal: str | None = None
    placeholder: str = ""
    is_tall: bool = False
    """Whether a text area has room for a document."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an act asks for, and what it says before it acts."""

    title: str
    fields: Sequence[Field]
    submit: str
    back: str
    sentences: Sequence[str] = ()
    is_danger: bool = False
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    area: str = "topics"
    action: str = ""
    """Where the form is sent; empty: where it was shown."""


@dataclass(frozen=True, slots=True)
class Done:
    """An act that succeeded."""

    url: str
    message: str


Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Act:
    """One act at one path."""

    path: str
    form: Callable[[Ask], Awaitable[Form]]
    perform: Callable[[Ask, Values], Awaitable[Done | Form]]

    def route(self, wrap: Callable[[Callable[[Ask], Awaitable[Response]]], Any]) -> Route:
        """The route that shows the form and takes it."""
        return Route(self.path, wrap(self._serve), methods=["GET", "POST"])

    async def _serve(self, ask: Ask) -> Response:
        if ask.request.method != "POST":
            return show(ask, await self.form(ask))
        values = await ask.form()
        try:
            outcome = await self._checked(ask, values)
        except Exception as error:
            explained = explain(error)
            if explained is None:
                raise
            form = await self.form(ask)
            form = replace(form, fields=filled(form.fields, values))
            problem = " ".join(part for part in (explained.text, explained.advice) if part)
            return show(ask, form, problem, max(explained.status, 400))
        if isinstance(outcome, Form):
            return show(ask, outcome)
        return ask.done(outcome.url, outcome.message)

    async def _checked(self, ask: Ask, values: Values) -> Done | Form:
        for each in (await self.form(ask)).fields:
            given = values.get(each.name, "").strip()
            if each.must_equal is not None and given != each.must_equal:
                raise PageError(
                    400, "The name does not match", f"Type {each.must_equal!r} to confirm; nothing was changed."
                )
            if each.required and not given and each.kind != "checkbox":
                raise PageError(400, "Something is missing", f"{each.label} is missing.")
        return await self.perform(ask, values)


def show(ask: Ask, form: Form, problem: str = "", status: int = 200) -> Response:
    """The page of a form."""
    return ask.render("form.html", status, form=form, problem=problem, area=form.area)


def confirm_name(name: str, noun: str) -> Field:
    """The field in which a name is typed before it goes."""
    return Field(
        "confirm",
        f"Type the name of the {noun} to confirm",
        must_equal=name,
        hint=name,
    )


def filled(fields: Sequence[Field], values: Values) -> list[Field]:
    """The fields with these values, except for passwords and confirmations."""
    return [
        each
        if each.kind == "password" or each.must_equal is not None
        else replace(each, value=values.get(each.name, ""))
        for each in fields
    ]
