"""The optional C module of this package, or None where the Python functions are used."""

from typing import Final

from tidelog.wire.native import load_speedups

speedups: Final = load_speedups("tidelog.client._speedups", 1)
