"""An area of the console: its pages and its acts, from which the routes are made."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from tidelog.console.forms import Act
from tidelog.console.web import Ask, Handler

Wrap = Callable[[Callable[[Ask], Awaitable[Response]]], Any]


@dataclass(frozen=True, slots=True)
class Area:
    """Pages by path, and acts."""

    pages: Mapping[str, Handler]
    acts: Sequence[Act] = field(default=())

    def routes(self, wrap: Wrap) -> list[Route]:
        """The routes of the area."""
        acts = [act.route(wrap) for act in self.acts]
        return acts + [Route(path, wrap(handler), methods=["GET"]) for path, handler in self.pages.items()]
