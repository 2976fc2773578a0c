"""The optional C module of this package, or None where the event loop sends every reply itself."""

from typing import Final

from tidelog.wire.native import load_speedups

speedups: Final = load_speedups("tidelog.network._speedups", 2)
