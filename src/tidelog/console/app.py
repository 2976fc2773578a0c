"""The console as a Starlette application: one console, its sessions, and the table of its routes."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tidelog.client.errors import AuthenticationFailed
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import Explained, PageError, explain
from tidelog.console.guard import Guard
from tidelog.console.pages import PAGES
from tidelog.console.schemas import RegistryDecoder
from tidelog.console.sessions import Session, Sessions
from tidelog.console.settings import ConsoleSettings, Login
from tidelog.console.tail import Tails
from tidelog.console.web import STATIC, Ask, Handler, link, make_environment

logger = logging.getLogger(__name__)

EXPIRY_CHECK_S: Final = 30.0
LOGIN_ATTEMPTS_PER_MINUTE: Final = 30
"""Of all browsers together: a password cannot be guessed through the console faster than that."""


class Console:
    """What the requests of one console share."""

    def __init__(self, settings: ConsoleSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        self.environment = make_environment()
        self.sessions: Sessions[ClusterView] = Sessions(settings.session_idle_s, settings.session_s_max)
        self.tails = Tails()
        self.decoder = RegistryDecoder(settings.schema_registry)
        self.cluster_name = _as_text(settings.client.get("bootstrap.servers"))
        self._shared: ClusterView | None = None
        self._attempts: list[float] = []

    @property
    def cookie(self) -> str:
        """The name of the session's cookie. Cookies of a host are sent to all of its ports."""
        return f"tidelog-console-{self.settings.listen.port}"

    @property
    def shared_view(self) -> ClusterView:
        """The view of all sessions, where users do not log in to the cluster themselves."""
        if self._shared is None:
            self._shared = ClusterView(self.settings.client, self.settings.sample_interval_s)
        return self._shared

    async def close(self) -> None:
        """Close all connections to the cluster."""
        await self.tails.close()
        views = {session.view for session in self.sessions if session.view is not None}
        if self._shared is not None:
            views.add(self._shared)
        for view in views:
            await view.close()

    async def expire_sessions(self) -> None:
        """End expired sessions, and the connections that only they used."""
        for session in self.sessions.expire(self.clock()):
            await self.end(session)

    async def end(self, session: Session[ClusterView]) -> None:
        """End one session."""
        self.sessions.end(session)
        if session.view is not None and session.view is not self._shared:
            await session.view.close()

    def session_of(self, request: Request) -> Session[ClusterView]:
        """The browser's session, or a new one, which is logged in only if no login is needed."""
        found = self.sessions.find(request.cookies.get(self.cookie, ""), self.clock())
        if found is not None:
            return found
        view = self.shared_view if self.settings.login is Login.NONE else None
        return self.sessions.open(self.clock(), view=view)

    async def log_in(self, user: str, password: str) -> Session[ClusterView]:
        """A new session for this user or token. Raises PageError if the cluster or the console rejects it."""
        self._count_attempt()
        if self.settings.login is Login.TOKEN:
            assert self.settings.token is not None, "the login is by token"
            if not hmac.compare_digest(password.encode(), self.settings.token.encode()):
                raise PageError(401, "The login was rejected", "The token is not the one of --token.")
            return self.sessions.open(self.clock(), "token", self.shared_view)
        view = ClusterView(sasl_settings(self.settings.client, user, password), self.settings.sample_interval_s)
        try:
            await view.admin()
        except AuthenticationFailed as error:
            await view.close()
            raise PageError(401, "The login was rejected", f"The cluster rejected it: {error.reason}.") from error
        except BaseException:
            await view.close()
            raise
        return self.sessions.open(self.clock(), user, view)

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

    def page(self, handler: Handler, *, needs_login: bool = True) -> Callable[[Request], Awaitable[Response]]:
        """A handler as an endpoint: with its session, and with its errors as pages."""

        async def endpoint(request: Request) -> Response:
            ask = Ask(request, self, self.session_of(request))
            if needs_login and ask.session.view is None:
                self.sessions.end(ask.session)
                wanted = str(request.url.path) if request.method == "GET" else "/"
                return RedirectResponse(link("/login", to=wanted if wanted != "/" else ""), status_code=303)
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


def sasl_settings(client: Any, user: str, password: str) -> dict[str, Any]:
    """The client's settings with a user's credentials."""
    mechanism = str(client.get("sasl.mechanism") or "SCRAM-SHA-512")
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = [given.replace("\\", "\\\\").replace('"', '\\"') for given in (user, password)]
    entry = f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
    return {**client, "sasl.mechanism": mechanism, "sasl.jaas.config": entry}


async def show_login(ask: Ask) -> Response:
    """The login form, and the login."""
    way = ask.console.settings.login
    if way is Login.NONE or (ask.session.view is not None and ask.request.method == "GET"):
        return RedirectResponse("/", status_code=303)
    problem, status, to = "", 200, ask.query("to")
    if ask.request.method == "POST":
        values = await ask.form()
        to = values.get("to", "")
        try:
            session = await ask.console.log_in(values.get("user", ""), values.get("password", ""))
        except Exception as error:
            explained = explain(error)
            if explained is None:
                raise
            problem, status = explained.text, explained.status
        else:
            await ask.console.end(ask.session)
            response = RedirectResponse(_own_path(to), status_code=303)
            ask.console.remember(response, session)
            return response
    return ask.render("login.html", status, way=way.value, problem=problem, to=_own_path(to), area="")


async def log_out(ask: Ask) -> Response:
    """End the session."""
    await ask.form()
    await ask.console.end(ask.session)
    return RedirectResponse("/login", status_code=303)


def _own_path(given: str) -> str:
    """A path of the console to go to after the login; never another site."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) else "/"


def _as_text(servers: object) -> str:
    return servers if isinstance(servers, str) else ",".join(servers) if isinstance(servers, list | tuple) else ""


def build_app(settings: ConsoleSettings, clock: Callable[[], float] = time.monotonic) -> Starlette:
    """The application. Raises ConsoleError or a client's error for settings that cannot be used."""
    settings.check()
    console = Console(settings, clock)
    routes: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/login", console.page(show_login, needs_login=False), methods=["GET", "POST"]),
        Route("/logout", console.page(log_out), methods=["POST"]),
    ]
    for page in PAGES:
        routes += page.routes(console.page)

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
        ask = Ask(request, console, console.session_of(request))
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
