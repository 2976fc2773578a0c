"""The console as a Starlette application: one console, its sessions, and the table of its routes."""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tidelog.client.errors import AuthenticationFailed
from tidelog.console.cluster_view import ClusterView
from tidelog.console.clusters import Cluster
from tidelog.console.errors import Explained, PageError, explain
from tidelog.console.guard import Guard
from tidelog.console.pages import PAGES
from tidelog.console.pages.front import show_clusters
from tidelog.console.sessions import Entry, Session, Sessions
from tidelog.console.settings import ConsoleSettings, Login
from tidelog.console.tail import Tails
from tidelog.console.web import STATIC, Ask, Handler, link

logger = logging.getLogger(__name__)

EXPIRY_CHECK_S: Final = 30.0
LOGIN_ATTEMPTS_PER_MINUTE: Final = 30
"""Of all browsers together: a password cannot be guessed through the console faster than that."""


class Console:
    """What the requests of one console share."""

    def __init__(self, settings: ConsoleSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        self.clusters = [Cluster(each, settings) for each in settings.clusters]
        self.sessions: Sessions[ClusterView] = Sessions(settings.session_idle_s, settings.session_s_max)
        self.tails = Tails()
        self._attempts: list[float] = []

    @property
    def cookie(self) -> str:
        """The name of the session's cookie. Cookies of a host are sent to all of its ports."""
        return f"tidelog-console-{self.settings.listen.port}"

    def cluster_of(self, path: str) -> Cluster:
        """The cluster whose page has this path; the first for pages of none."""
        return next((each for each in self.clusters if path.startswith(f"{each.root}/")), self.clusters[0])

    async def close(self) -> None:
        """Close all connections to the clusters."""
        await self.tails.close()
        for session in self.sessions:
            await self.end(session)
        for cluster in self.clusters:
            await cluster.close()

    async def expire_sessions(self) -> None:
        """End expired sessions, and the connections that only they used."""
        for session in self.sessions.expire(self.clock()):
            await self.end(session)

    async def end(self, session: Session[ClusterView]) -> None:
        """End one session."""
        self.sessions.end(session)
        for cluster in self.clusters:
            entry = session.entries.get(cluster.name)
            if entry is not None and not cluster.is_shared(entry.view):
                await entry.view.close()

    def session_of(self, request: Request) -> Session[ClusterView]:
        """The browser's session, or a new one, which is logged in only where no login is needed."""
        found = self.sessions.find(request.cookies.get(self.cookie, ""), self.clock())
        return found or self.sessions.open(self.clock(), self._shared(Login.NONE))

    def _shared(self, way: Login) -> dict[str, Entry[ClusterView]]:
        """The entries of all clusters with this way to log in."""
        user = "token" if way is Login.TOKEN else ""
        return {each.name: Entry(user, each.shared_view) for each in self.clusters if each.login is way}

    async def log_in(
        self, before: Session[ClusterView], cluster: Cluster, user: str, password: str
    ) -> Session[ClusterView]:
        """A session with this login in place of `before`, whose other logins it keeps.

        Raises PageError if the cluster or the console rejects the user or token.
        """
        self._count_attempt()
        if cluster.login is Login.TOKEN:
            assert self.settings.token is not None, "the login is by token"
            if not hmac.compare_digest(password.encode(), self.settings.token.encode()):
                raise PageError(401, "The login was rejected", "The token is not the one of --token.")
            entries = self._shared(Login.TOKEN)
        else:
            entries = {cluster.name: Entry(user, await _connected(cluster.view_of(user, password)))}
        # A new id: the one before may have been planted by somebody else.
        session = self.sessions.open(self.clock(), {**before.entries, **entries})
        before.entries = {name: entry for name, entry in before.entries.items() if name in entries}
        await self.end(before)
        return session

    def _count_attempt(self) -> None:
        now = self.clock()
        self._attempts = [each for each in self._attempts if now - each < 60.0]
        if len(self._attempts) >= LOGIN_ATTEMPTS_PER_MINUTE:
            raise PageError(429, "Too many logins", "There were too many attempts to log in.", "Wait for a minute.")
        self._attempts.append(now)

    def remember(self, response: Response, session: Session[ClusterView]) -> None:
        """Set the session's cookie."""
        response.set_cookie(
            self.cookie,
            session.session_id,
            httponly=True,
            samesite="lax",
            secure=self.settings.is_tls,
            path="/",
        )

    def page(
        self, cluster: Cluster, handler: Handler, *, needs_login: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        """A handler as an endpoint of a cluster's pages: with its session, and with its errors as pages."""

        async def endpoint(request: Request) -> Response:
            ask = Ask(request, self, cluster, self.session_of(request))
            if needs_login and ask.entry is None:
                if not ask.session.entries:
                    self.sessions.end(ask.session)
                wanted = ask.path if request.method == "GET" else "/"
                return ask.go(link("/login", to=wanted if wanted != "/" else ""))
            try:
                response = await handler(ask)
            except Exception as error:
                explained = explain(error)
                if explained is None:
                    logger.exception("the page %s failed", request.url.path)
                    explained = Explained(
                        500, "The console failed", "This is a fault of the console; its log has the details."
                    )
                response = show_error(ask, explained)
            if "set-cookie" not in response.headers:
                self.remember(response, ask.session)
            return response

        return endpoint


def show_error(ask: Ask, explained: Explained) -> Response:
    """An error as a page."""
    return ask.render("error.html", explained.status, explained=explained, area="")


async def _connected(view: ClusterView) -> ClusterView:
    """A view whose user was accepted. Raises PageError for a login that the cluster rejects."""
    try:
        await view.admin()
    except AuthenticationFailed as error:
        await view.close()
        raise PageError(401, "The login was rejected", f"The cluster rejected it: {error.reason}.") from error
    except BaseException:
        await view.close()
        raise
    return view


async def show_login(ask: Ask) -> Response:
    """The login form, and the login."""
    way = ask.cluster.login
    if way is Login.NONE or (ask.entry is not None and ask.request.method == "GET"):
        return ask.go("/")
    problem, status, to = "", 200, ask.query("to")
    if ask.request.method == "POST":
        values = await ask.form()
        to = values.get("to", "")
        try:
            session = await ask.console.log_in(
                ask.session, ask.cluster, values.get("user", ""), values.get("password", "")
            )
        except Exception as error:
            explained = explain(error)
            if explained is None:
                raise
            problem, status = explained.text, explained.status
        else:
            response = ask.go(_own_path(to))
            ask.console.remember(response, session)
            return response
    return ask.render("login.html", status, way=way.value, problem=problem, to=_own_path(to), area="")


async def log_out(ask: Ask) -> Response:
    """End the session."""
    await ask.form()
    await ask.console.end(ask.session)
    return ask.go("/login")


def _own_path(given: str) -> str:
    """A path of the console to go to after the login; never another site."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) else "/"


def _routes(console: Console, cluster: Cluster) -> list[BaseRoute]:
    """The pages of a cluster."""
    wrap = functools.partial(console.page, cluster)
    routes: list[BaseRoute] = [
        Route("/login", wrap(show_login, needs_login=False), methods=["GET", "POST"]),
        Route("/logout", wrap(log_out), methods=["POST"]),
    ]
    for page in PAGES:
        routes += page.routes(wrap)
    return routes


def build_app(settings: ConsoleSettings, clock: Callable[[], float] = time.monotonic) -> Starlette:
    """The application. Raises ConsoleError or a client's error for settings that cannot be used."""
    settings.check()
    console = Console(settings, clock)
    routes: list[BaseRoute] = [Mount("/static", StaticFiles(directory=STATIC))]
    for cluster in console.clusters:
        routes += [Mount(cluster.root, routes=_routes(console, cluster))] if cluster.root else _routes(console, cluster)
    if len(console.clusters) > 1:
        routes.append(Route("/", console.page(console.clusters[0], show_clusters, needs_login=False), methods=["GET"]))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async def expire() -> None:
            while True:
                await asyncio.sleep(EXPIRY_CHECK_S)
                await console.expire_sessions()

        task = asyncio.create_task(expire())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await console.close()

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for it"
        cluster = console.cluster_of(request.url.path)
        ask = Ask(request, console, cluster, console.session_of(request))
        texts = {
            404: ("There is no such page", f"The console has no page {request.url.path}."),
            405: ("This cannot be done here", f"{request.method} is not allowed for {request.url.path}."),
        }
        title, sentence = texts.get(error.status_code, ("The request failed", error.detail))
        return show_error(ask, Explained(error.status_code, title, sentence))

    allowed = [settings.listen.host, *settings.allowed_hosts]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, allowed_hosts=allowed)],
        exception_handlers={HTTPException: on_http_error},
        lifespan=lifespan,
    )
    app.state.console = console
    return app
