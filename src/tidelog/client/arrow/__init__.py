"""The implementation of `poll_arrow` and `send_arrow`. Needs `pip install 'tidelog[arrow]'`.

    reading     fetched record batches → Arrow tables
    writing     Arrow tables → record batches
    schema      the columns that records have
    frames      pandas and Polars, to and from tables
    deliveries  the outcome of a table that was sent

The clients import these modules with the first call, by `load`; nothing is imported here. The work on records is done
by `tidelog.records.kernels`, compiled where Numba is there and in plain Python where it is not.
"""

from importlib import import_module
from typing import Any

from tidelog.client.errors import ClientError


class ArrowMissing(ClientError):  # noqa: N818 - named as the other client errors are
    """PyArrow, pandas or Polars is not installed."""

    def __init__(self, module: str, extra: str = "arrow") -> None:
        super().__init__(f"{module} is not installed: pip install 'tidelog[{extra}]'")


def load(name: str) -> Any:
    """The module `name` of this package. Raises ArrowMissing where PyArrow is not installed."""
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise ArrowMissing("pyarrow") from error
