"""The settings of a broker as they are now.

Parts that follow dynamic settings hold this and read `config` when they need it; the rest receive a `BrokerConfig`.
"""

from __future__ import annotations

from tidelog.config import BrokerConfig
from tidelog.config.layers import ConfigLayers


class CurrentSettings:
    """One broker's settings, by layer and as one. `replace` is called by whatever follows changes in the tree."""

    __slots__ = ("config", "layers")

    def __init__(self, layers: ConfigLayers) -> None:
        self.layers: ConfigLayers
        self.config: BrokerConfig
        self.replace(layers)

    def replace(self, layers: ConfigLayers) -> None:
        """The settings have changed."""
        self.layers = layers
        self.config = layers.config
