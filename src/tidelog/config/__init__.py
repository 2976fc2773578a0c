"""Configuration: every setting declared once, and what is derived from the declarations.

This room does no I/O: texts come in as arguments, typed and frozen groups of settings go out.
"""

from tidelog.config._listeners import Listener
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.errors import ConfigError, InvalidValueError
from tidelog.config.loading import load_broker_config, settings_without_effect, topic_settings_without_effect
from tidelog.config.log_config import LogConfig
from tidelog.config.properties import format_properties, parse_properties
from tidelog.config.topics import topic_config

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "InvalidValueError",
    "Listener",
    "LogConfig",
    "format_properties",
    "load_broker_config",
    "parse_properties",
    "settings_without_effect",
    "topic_config",
    "topic_settings_without_effect",
]
