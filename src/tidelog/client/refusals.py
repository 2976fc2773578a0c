"""Error codes of replies turned into ApiError, in one place, so that every message says what was refused and why."""

from typing import Final, NoReturn

from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode

_BY_NUMBER: Final = {int(code): code for code in ErrorCode}


def raise_if_refused(what: str, error_code: int, message: str | None = None) -> None:
    """Raise what a broker said about `what`, unless it said NONE."""
    if error_code != ErrorCode.NONE:
        raise_refusal(what, error_code, message)


def raise_refusal(what: str, error_code: int, message: str | None = None) -> NoReturn:
    """Raise an ApiError for `what`. A code newer than ours is kept as a number in the message."""
    code = _BY_NUMBER.get(error_code)
    if code is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: {message or f'error code {error_code}'}")
    raise ApiError(code, f"{what}: {message or code.text}")
