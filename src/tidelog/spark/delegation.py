"""Delegation tokens: executors log in with a token that the driver obtained, and never see its password or key.

With the option `kafka.auth.bootstrap.servers` the driver logs in there with its own credentials, creates a token and
hands it to the tasks of each batch, which log in with SCRAM (`kafka.sasl.token.mechanism`). The names are those of
`spark.kafka.clusters.*` in Spark's own connector.

Spark plans every batch in some process of the driver. So that each does not create a token of its own, tokens are kept
in a directory which only the driver's user can read, as Kerberos keeps its tickets: processes and queries with the same
credentials share one. A token is renewed when half of its time has passed, and replaced by another before it has
reached its maximal lifetime.
"""

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import DelegationToken
from tidelog.spark.options import OptionError, security_settings
from tidelog.wire.errors import ApiError

AUTH_SERVERS: Final = "auth.bootstrap.servers"
TOKEN_MECHANISM: Final = "sasl.token.mechanism"  # noqa: S105 - the name of a setting
TOKEN_SETTINGS: Final = (AUTH_SERVERS, TOKEN_MECHANISM)
"""Settings of this module, as `kafka.…` options have them."""

DIRECTORY_VARIABLE: Final = "TIDELOG_TOKEN_DIR"
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SECURITY: Final = "security.protocol"


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where a token comes from: brokers, and the credentials to log in with. `repr` shows the brokers alone."""

    servers: str
    credentials: tuple[tuple[str, str], ...] = field(repr=False)
    mechanism: str = _MECHANISMS[0]

    def security(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> tuple[tuple[str, str], ...]:
        """What an executor logs in with, instead of the credentials. Call it on the driver, for each batch.

        Raises the errors of the client if no token can be obtained.
        """
        with _store(self) as path:
            kept = _read(path)
            token = self._usable(kept, now_ms())
            if token != kept:
                _write(path, token)
        jaas = f'{_MODULE} required username="{token.token_id}" password="{token.hmac}" tokenauth="true";'
        login = {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas}
        given = {name: value for name, value in self.credentials if not name.startswith("sasl.")}
        return tuple(sorted({**given, **login}.items()))

    def _usable(self, kept: "Token | None", now_ms: int) -> "Token":
        """`kept` if it has time left, renewed if that is due; else another token."""
        if kept is not None and now_ms < kept.renew_at_ms:
            return kept
        with Admin(dict(self.credentials), bootstrap_servers=self.servers) as admin:
            if kept is not None and now_ms < kept.replace_at_ms:
                # It may be gone: it was expired by an administrator, or the broker's clock is ahead.
                with suppress(ApiError):
                    return kept.renewed(now_ms, admin.renew_delegation_token(kept.hmac))
            return Token.of(admin.create_delegation_token())


@dataclass(frozen=True, slots=True)
class Token:
    """A token in the store."""

    token_id: str
    hmac: str = field(repr=False)
    since_ms: int
    """When it was made or renewed."""
    expires_ms: int
    max_ms: int

    @classmethod
    def of(cls, made: DelegationToken) -> "Token":
        return cls(made.token_id, made.hmac, made.issued_ms, made.expires_ms, made.max_ms)

    def renewed(self, now_ms: int, expires_ms: int) -> "Token":
        return Token(self.token_id, self.hmac, now_ms, expires_ms, self.max_ms)

    @property
    def renew_at_ms(self) -> int:
        """When half of its time has passed: tasks that have it then have the other half."""
        return self.since_ms + (self.expires_ms - self.since_ms) // 2

    @property
    def replace_at_ms(self) -> int:
        """When renewing it would not give it half of a period more."""
        return self.max_ms - (self.expires_ms - self.since_ms) // 2


def take_token_source(settings: dict[str, str], servers: str) -> TokenSource | None:
    """Take the settings of this module out of `settings`, a connection's; None if it has none. Raises OptionError.

    What is left in `settings` and secures a connection is what the source logs in with.
    """
    given = {name: settings.pop(name) for name in TOKEN_SETTINGS if name in settings}
    if not given:
        return None
    mechanism = given.get(TOKEN_MECHANISM, _MECHANISMS[0]).upper()
    if mechanism not in _MECHANISMS:
        raise OptionError(
            f"option 'kafka.{TOKEN_MECHANISM}' is {mechanism!r}: it must be one of {', '.join(_MECHANISMS)}"
        )
    if not settings.get(_SECURITY, "").upper().startswith("SASL_"):
        raise OptionError(
            f"option 'kafka.{AUTH_SERVERS}' needs 'kafka.{_SECURITY}' SASL_SSL or SASL_PLAINTEXT: executors log in "
            f"with a delegation token; it is {settings.get(_SECURITY, 'PLAINTEXT')!r}"
        )
    credentials = security_settings(settings)
    return TokenSource(given.get(AUTH_SERVERS) or servers, tuple(sorted(credentials.items())), mechanism)


@contextmanager
def _store(source: TokenSource) -> Iterator[Path]:
    """The file of a source's token, locked."""
    directory = _directory()
    text = json.dumps([source.servers, source.credentials])
    path = directory / sha256(text.encode()).hexdigest()
    handle = os.open(directory / f"{path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(handle)


def _directory() -> Path:
    """Made where it is missing; only this user may read it."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    directory = Path(given) if given else Path(tempfile.gettempdir()) / f"tidelog-tokens-{os.getuid()}"
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise OptionError(
            f"{directory} is not a directory that only this user can read: delegation tokens are not kept there; "
            f"remove it, or set {DIRECTORY_VARIABLE} to another place"
        )
    return directory


def _read(path: Path) -> Token | None:
    """None if there is none, or not one of ours."""
    try:
        return Token(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, token: Token) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(token), file)
    draft.replace(path)
