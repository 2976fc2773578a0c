"""One cluster of a console: where its pages are, how people log in to it, and the view that they share.

With one cluster its pages begin at `/`; with several, those of each begin at `/clusters/NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.console.cluster_view import ClusterView
from tidelog.console.replays import Replays
from tidelog.console.schemas import RegistryDecoder
from tidelog.console.settings import ClusterSettings, ConsoleSettings, Login
from tidelog.console.web import NAVIGATION, make_environment


class Cluster:
    """What the requests about one cluster share."""

    def __init__(self, settings: ClusterSettings, console: ConsoleSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.servers = settings.servers
        self.root = f"/clusters/{settings.name}" if len(console.clusters) > 1 else ""
        self.login = console.login(settings)
        self.environment = make_environment(self.root)
        self.decoder = RegistryDecoder(settings.schema_registry)
        self.replays = Replays()
        self.navigation = [each for each in NAVIGATION if each[2] != "schemas" or self.decoder.is_there]
        self._sample_interval_s = console.sample_interval_s
        self._shared: ClusterView | None = None

    @property
    def shared_view(self) -> ClusterView:
        """The view of all sessions, where users do not log in to the cluster themselves."""
        if self._shared is None:
            self._shared = ClusterView(self.settings.client, self._sample_interval_s)
        return self._shared

    def view_of(self, user: str, password: str) -> ClusterView:
        """The cluster as one of its users sees it, not connected."""
        return ClusterView(sasl_settings(self.settings.client, user, password), self._sample_interval_s)

    def is_shared(self, view: ClusterView) -> bool:
        """Whether other sessions use a view as well."""
        return view is self._shared

    async def close(self) -> None:
        """Close the connections of the shared view."""
        if self._shared is not None:
            await self._shared.close()

    @property
    def may_change_registry(self) -> bool:
        """Whether the console changes the registry for whoever may use it.

        The registry sees the console and not the user: users of the cluster, whose rights differ, may only look.
        """
        return self.login is not Login.SASL


def sasl_settings(client: Mapping[str, Any], user: str, password: str) -> dict[str, Any]:
    """The client's settings with a user's credentials."""
    mechanism = str(client.get("sasl.mechanism") or "SCRAM-SHA-512")
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = [given.replace("\\", "\\\\").replace('"', '\\"') for given in (user, password)]
    entry = f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
    return {**client, "sasl.mechanism": mechanism, "sasl.jaas.config": entry}
