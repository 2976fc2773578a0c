"""Passwords that are set dynamically: in clear in a broker's memory, encrypted in the tree, and shown by nothing.

`password.encoder.secret` encrypts them. After it was changed, `password.encoder.old.secret` decrypts what is there: at
the start the passwords of this broker are stored again with the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.config import BrokerConfig
from tidelog.config.updates import is_password
from tidelog.metadata.configs import ConfigEntity, read_overrides, replace_overrides
from tidelog.metadata.store import Store

if TYPE_CHECKING:
    from tidelog.security.password_encoder import PasswordEncoder

logger = logging.getLogger(__name__)


class DynamicPasswords:
    """The passwords among the dynamic settings of a broker."""

    def __init__(self, config: BrokerConfig) -> None:
        """`password.encoder.*` are static. Raises ConfigError for those that cannot be honoured."""
        self._encoder = _encoder(config, config.password_encoder_secret)

    def decode(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """What the tree holds, in clear. A password that cannot be decrypted is left out, and logged."""
        return {
            name: clear
            for name, text in overrides.items()
            if (clear := _decoded(name, text, self._encoder) if is_password(name) else text) is not None
        }

    def encode(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """What the tree is to hold."""
        encoder = self._encoder
        assert encoder is not None or not any(map(is_password, overrides)), "passwords are refused without a secret"
        return {
            name: encoder.encode(text) if encoder is not None and is_password(name) else text
            for name, text in overrides.items()
        }


def rotate_passwords(store: Store, broker_id: int, config: BrokerConfig) -> None:
    """Store the passwords that were encrypted with the old secret again, with the new one."""
    old, new = _encoder(config, config.password_encoder_old_secret), _encoder(config, config.password_encoder_secret)
    if old is None or new is None:
        return
    from tidelog.security.password_encoder import PasswordNotDecodedError

    entity = ConfigEntity("brokers", str(broker_id))
    overrides = read_overrides(store, entity)
    rotated: dict[str, str] = {}
    for name, text in overrides.items():
        try:
            if is_password(name) and _is_of_another_secret(text, new):
                rotated[name] = new.encode(old.decode(text))
        except PasswordNotDecodedError:
            logger.error(
                "the dynamic setting %s is encrypted with neither password.encoder.secret nor the old one", name
            )
    if rotated:
        replace_overrides(store, entity, {**overrides, **rotated}, lambda _: None)
        logger.info("%d dynamic passwords are encrypted with the new password.encoder.secret", len(rotated))


def _is_of_another_secret(text: str, encoder: PasswordEncoder) -> bool:
    from tidelog.security.password_encoder import PasswordNotDecodedError

    try:
        encoder.decode(text)
    except PasswordNotDecodedError:
        return True
    return False


def _encoder(config: BrokerConfig, secret: str | None) -> PasswordEncoder | None:
    if secret is None:
        return None
    # Only now: a broker without dynamic passwords starts sooner.
    from tidelog.security.password_encoder import encoder_of

    return encoder_of(config, secret)


def _decoded(name: str, text: str, encoder: PasswordEncoder | None) -> str | None:
    if encoder is None:
        logger.error("the dynamic setting %s is ignored: password.encoder.secret is not set", name)
        return None
    from tidelog.security.password_encoder import PasswordNotDecodedError

    try:
        return encoder.decode(text)
    except PasswordNotDecodedError:
        logger.error("the dynamic setting %s is ignored: it is not encrypted with this password.encoder.secret", name)
        return None
