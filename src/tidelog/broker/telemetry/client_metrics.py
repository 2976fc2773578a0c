"""The metrics of clients on one broker: subscriptions as they are in the tree, clients, and what they sent."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.broker.telemetry.series import ClientSeries
from tidelog.broker.telemetry.subscriptions import Subscription, Subscriptions
from tidelog.config.entities import checked_client_metrics
from tidelog.config.errors import ConfigError
from tidelog.metadata.entities import CLIENT_METRICS

if TYPE_CHECKING:
    from tidelog.broker.configuration.entity_settings import EntitySettings

logger = logging.getLogger(__name__)


class ClientMetrics:
    """Follows the subscriptions. `start` reads those that are there; called once they can be read."""

    def __init__(self, entities: EntitySettings) -> None:
        self._entities = entities
        self.series = ClientSeries()
        self.subscriptions = Subscriptions(_new_id, self.series.forget)
        entities.listen(CLIENT_METRICS, self._follow)

    def start(self) -> None:
        for name in self._entities.names(CLIENT_METRICS):
            self._follow(name)

    def _follow(self, name: str) -> None:
        overrides = self._entities.overrides(CLIENT_METRICS, name)
        subscription = None
        if overrides:
            try:
                config = checked_client_metrics(overrides)
            except ConfigError as error:
                # It was stored by another version: nothing is asked for rather than something else.
                logger.error("subscription %s to clients' metrics is ignored: %s", name, error)
            else:
                subscription = Subscription(config.metrics, config.interval_ms, config.match)
        self.subscriptions.put(name, subscription)


def _new_id() -> bytes:
    import uuid

    return uuid.uuid4().bytes
