"""Imports the modules of `tidelog.client.arrow` when a call needs them: the clients work without PyArrow."""

from importlib import import_module
from typing import Any

from tidelog.client.errors import ClientError


class ArrowMissing(ClientError):  # noqa: N818 - named as the other client errors are
    """PyArrow, pandas or Polars is not installed."""

    def __init__(self, module: str, extra: str = "arrow") -> None:
        super().__init__(f"{module} is not installed: pip install 'tidelog[{extra}]'")


def load(name: str) -> Any:
    """The module `name` of `tidelog.client.arrow`. Raises ArrowMissing where PyArrow is not installed."""
    try:
        return import_module(f"tidelog.client.arrow.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise ArrowMissing("pyarrow") from error
