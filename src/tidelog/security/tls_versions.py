"""The versions of TLS that are used, by their names in Java: TLSv1.2 and TLSv1.3.

A list in a configuration written for Kafka may name older ones, too. They are left out with a warning, since a list is
what is allowed, and fewer versions are safe. A list that leaves none is an error.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from typing import Final

from tidelog.config.errors import ConfigError

logger = logging.getLogger(__name__)

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def usable_versions(names: Sequence[str], setting: str) -> tuple[str, ...]:
    """Those of the names that are used. Raises ConfigError if there is none; `setting` is where they are from."""
    left_out = [name for name in names if name not in VERSIONS]
    usable = tuple(name for name in names if name in VERSIONS)
    if not usable:
        raise ConfigError(
            f"{setting}={','.join(names)}: {_listed(left_out)} none of {', '.join(VERSIONS)}", setting=setting
        )
    if left_out:
        logger.warning("%s: %s not supported and left out; used are %s", setting, _listed(left_out), ", ".join(usable))
    return usable


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
