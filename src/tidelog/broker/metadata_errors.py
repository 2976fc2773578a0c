"""What a client is told when the metadata cannot be written, because its disk is full or fails.

Decorates whatever changes the tree for a client. Nothing was changed then, and the broker goes on with what it knows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.metadata.errors import StoreUnavailableError
from tidelog.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


@contextmanager
def metadata_errors_told() -> Iterator[None]:
    """Turn what the store raises when it cannot be used into an error that may be retried."""
    try:
        yield
    except StoreUnavailableError as error:
        raise storage_error(error) from error


def storage_error(cause: StoreUnavailableError) -> ApiError:
    """The error for a request that the store could not carry out."""
    logger.error("the metadata cannot be changed: %s", cause)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be changed: {cause}")
