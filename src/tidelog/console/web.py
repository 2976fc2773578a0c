"""A request as pages see it: its session, the cluster, its parameters, and how a template becomes a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tidelog.console import plots, text
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError
from tidelog.console.sessions import Entry, Flash, Session

if TYPE_CHECKING:
    from tidelog.console.app import Console
    from tidelog.console.clusters import Cluster

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
_HERE: Final = Path(__file__).parent

STATIC: Final = _HERE / "static"

NAVIGATION: Final[Sequence[tuple[str, str, str]]] = (
    ("/", "Overview", "overview"),
    ("/topics", "Topics", "topics"),
    ("/groups", "Groups", "groups"),
    ("/shares", "Share groups", "shares"),
    ("/schemas", "Schemas", "schemas"),
    ("/transactions", "Transactions", "transactions"),
    ("/pipelines", "Pipelines", "pipelines"),
    ("/reassignments", "Reassignments", "reassignments"),
    ("/access", "Access", "access"),
    ("/quotas", "Quotas", "quotas"),
)
"""Address, label and area. Schemas are shown where there is a registry."""


def link(path: str, **query: object) -> str:
    """A path of the console with a query; empty values are left out."""
    given = {name: str(value) for name, value in query.items() if value is not None and value != ""}
    return path + ("?" + urlencode(given, quote_via=quote) if given else "")


def make_environment(root: str) -> Environment:
    """The templates. All output is escaped; only SVG from `plots` is not.

    `root` is where the pages of a cluster begin. The console's own addresses are written without it in Python, and
    templates put it before them.
    """
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": text.number,
        "rate": text.rate,
        "size": text.size,
        "moment": text.moment,
        "duration": text.duration,
        "with_code": lambda prose: Markup(text.with_code(prose)),  # noqa: S704 - with_code escapes the text
        "segment": lambda name: quote(name, safe=""),
    }
    environment.globals |= {
        "link": link,
        "count": text.count,
        "area_plot": lambda *given: Markup(plots.area_plot(*given)),  # noqa: S704 - plots escapes its label
        "sparkline": lambda *given: Markup(plots.sparkline(*given)),  # noqa: S704
        "root": root,
    }
    return environment


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a page."""

    request: Request
    console: Console
    cluster: Cluster
    session: Session[ClusterView]

    @property
    def entry(self) -> Entry[ClusterView] | None:
        """The session's login at this cluster."""
        return self.session.entries.get(self.cluster.name)

    @property
    def user(self) -> str:
        """Who is logged in; empty if nobody has to."""
        return "" if self.entry is None else self.entry.user

    @property
    def view(self) -> ClusterView:
        """The cluster as this user sees it."""
        assert self.entry is not None, "pages need a login"
        self.entry.view.sampler.look()
        return self.entry.view

    @property
    def path(self) -> str:
        """The path of the page, from where the pages of the cluster begin."""
        return str(self.request.url.path).removeprefix(self.cluster.root)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query_params.get(name, default)

    def number(self, name: str, default: int, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """A whole number of the query. Raises PageError for anything else."""
        given = self.query(name).strip()
        return parse_number(name, given, least, most) if given else default

    async def form(self) -> dict[str, str]:
        """The fields of a submitted form. Raises PageError if it is not this session's or too large."""
        body = bytearray()
        async for chunk in self.request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise PageError(413, "The form is too large", f"A form may have {BODY_BYTES_MAX:,} bytes.")
        try:
            values = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=10_000))
        except ValueError:
            raise PageError(400, "The form cannot be read", "It is not URL-encoded UTF-8 text.") from None
        if not self.session.is_own_form(values.pop("form_secret", "")):
            raise PageError(
                403,
                "The form has expired",
                "It does not belong to this session; nothing was changed.",
                "Go back, load the page again and submit it once more.",
            )
        return values

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """A page."""
        theme = self.request.cookies.get("theme", "")
        made = self.cluster.environment.get_template(template).render(
            session=self.session,
            user=self.user,
            site=self.cluster,
            sites=self.console.clusters,
            theme=theme if theme in ("light", "dark") else "",
            flashes=self.session.take_flashes(),
            **context,
        )
        return HTMLResponse(made, status_code=status)

    def done(self, url: str, message: str) -> Response:
        """Go to a page that shows a message. What is cached is forgotten, so that the page shows what was done."""
        self.view.forget()
        self.session.flashes.append(Flash(message))
        return self.go(url)

    def go(self, url: str) -> Response:
        """Go to another page of the cluster."""
        return RedirectResponse(self.cluster.root + url, status_code=303)


Handler = Callable[[Ask], Awaitable[Response]]


def parse_number(name: str, given: str, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """A whole number from a form or a query. Raises PageError for anything else."""
    digits = given.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or not least <= int(given) <= most:
        limits = f"from {least:,} to {most:,}" if most < (1 << 62) else f"of at least {least:,}"
        raise PageError(400, "This number cannot be used", f"{name} is {given!r}; it must be a whole number {limits}.")
    return int(given)


@dataclass(frozen=True, slots=True)
class Paged:
    """One page of a list."""

    rows: Sequence[Any]
    page: int
    pages: int
    total: int
    base: str
    query: Mapping[str, str]

    def url(self, page: int) -> str:
        """The address of another page of the same list."""
        return link(self.base, **{**self.query, "page": page if page > 1 else ""})


def paged(ask: Ask, rows: Sequence[Any], size: int = 50) -> Paged:
    """The rows of the page that the query names; the last page if there are fewer."""
    pages = max(1, -(-len(rows) // size))
    page = min(ask.number("page", 1, 1), pages)
    query = {name: value for name, value in ask.request.query_params.items() if name != "page"}
    start = (page - 1) * size
    return Paged(rows[start : start + size], page, pages, len(rows), ask.path, query)
