"""Configuration: every setting declared once, and what is derived from the declarations.

This room does no I/O: texts come in as arguments, typed and frozen groups of settings go out.
"""

from tidelog.config._listeners import Listener
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.errors import ConfigError
from tidelog.config.log_config import LogConfig

__all__ = ["BrokerConfig", "ConfigError", "Listener", "LogConfig"]
