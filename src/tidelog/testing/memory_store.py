"""The metadata tree in memory, for tests; it is at home in `tidelog.metadata.memory_tree`."""

from tidelog.metadata.memory_tree import Deliver, MemoryStore, MemoryTree

__all__ = ["Deliver", "MemoryStore", "MemoryTree"]
