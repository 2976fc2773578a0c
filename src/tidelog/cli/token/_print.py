"""How tokens and times are printed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tidelog.cli.output import print_table
from tidelog.client.aio.admin.types import DelegationToken


def time_text(epoch_ms: int) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def print_tokens(tokens: Sequence[DelegationToken]) -> None:
    """One line for each, without the secrets."""
    rows = [(each.token_id, each.owner, ", ".join(each.renewers), time_text(each.expires_ms)) for each in tokens]
    print_table(("TOKEN ID", "OWNER", "RENEWERS", "EXPIRES"), rows)


def as_json(token: DelegationToken) -> dict[str, Any]:
    """Everything, the secret too."""
    return {**token._asdict(), "renewers": list(token.renewers)}
