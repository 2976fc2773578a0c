"""A store on which every change finds that it was made already, as after a reply that was lost with the connection."""

from collections.abc import Sequence

from tidelog.metadata.store import Operation, Result
from tidelog.testing.memory_store import MemoryStore


class RepeatingStore(MemoryStore):
    """Carries out changes twice and returns what the second try does."""

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        super().multi(operations)
        return super().multi(operations)
