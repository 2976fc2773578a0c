"""The SCRAM credentials of all users, in memory: logins must not wait for the tree.

Loaded when a broker starts, and followed like any other setting in the tree.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.metadata.store import Store
from tidelog.metadata.users import read_users

if TYPE_CHECKING:
    from tidelog.security.scram import CredentialOf, ScramCredential, TokenOf

    FindToken = Callable[[str, str], tuple[str, ScramCredential, int] | None]
    """By mechanism and id: the owner of a delegation token, its credential and when it expires."""

logger = logging.getLogger(__name__)

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class ScramCredentials:
    """Credentials by mechanism and user."""

    __slots__ = ("_by_mechanism", "find_token")

    def __init__(self) -> None:
        self.find_token: FindToken | None = None
        """Finds delegation tokens, where there are some."""
        self._by_mechanism: dict[str, dict[str, ScramCredential]] = {mechanism: {} for mechanism in _MECHANISMS}

    def load(self, store: Store) -> None:
        """Read all users of the tree."""
        for user, settings in read_users(store).items():
            self.update(user, settings)

    def update(self, user: str, settings: Mapping[str, str]) -> None:
        """The settings of a user are these now."""
        for mechanism, credentials in self._by_mechanism.items():
            text = settings.get(mechanism)
            credentials.pop(user, None)
            if text is None:
                continue
            # Only now: a broker whose users have no credentials starts sooner.
            from tidelog.security.scram import parse_credential

            try:
                credentials[user] = parse_credential(text)
            except ValueError as error:
                logger.error("the %s credential of user %r is ignored: %s", mechanism, user, error)

    def of_mechanism(self, mechanism: str) -> CredentialOf:
        """The look-up of a user's credential."""
        return self._by_mechanism[mechanism].get

    def tokens_of_mechanism(self, mechanism: str) -> TokenOf | None:
        """The look-up of a delegation token."""
        return None if self.find_token is None else partial(self.find_token, mechanism)

    def iterations_of(self, user: str) -> dict[str, int]:
        """By the mechanisms that the user has a credential for."""
        return {
            mechanism: credentials[user].iterations
            for mechanism, credentials in self._by_mechanism.items()
            if user in credentials
        }

    def users(self) -> Iterable[str]:
        """Every user that has a credential."""
        return sorted({user for credentials in self._by_mechanism.values() for user in credentials})
