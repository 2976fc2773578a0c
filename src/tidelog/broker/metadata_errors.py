"""Translates errors of the metadata store, such as a full or failing disk, into errors of the protocol.

For requests that change the tree. When the store fails, nothing was changed, and the broker keeps its current metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.metadata.errors import StoreUnavailableError
from tidelog.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


@contextmanager
def metadata_errors_translated() -> Iterator[None]:
    """Raise an unavailable store as KAFKA_STORAGE_ERROR, which clients retry."""
    try:
        yield
    except StoreUnavailableError as error:
        raise storage_error(error) from error


def storage_error(cause: StoreUnavailableError) -> ApiError:
    """The error of a request whose change the store could not write."""
    logger.error("the metadata cannot be changed: %s", cause)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be changed: {cause}")
