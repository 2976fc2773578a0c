"""Both stores beside a dictionary from path to data and version, with reopening in between."""

import tempfile
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.errors import NodeError
from tidelog.metadata.store import Check, Create, Delete, Operation, Set, Store
from tidelog.testing.memory_store import MemoryTree

paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
versions = st.sampled_from([-1, -1, 0, 1, 2])
data = st.binary(max_size=5)
rarely = st.sampled_from([False, False, False, True])
operations = st.one_of(
    st.builds(Create, paths, data, ephemeral=rarely, sequential=rarely),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
steps = st.lists(st.one_of(st.lists(operations, min_size=1, max_size=4), st.just("reopen")), max_size=25)


class Refused(Exception):
    """The model does not allow the operation."""


class Model:
    """Path -> [data, version, how many children were ever created, is it ephemeral]."""

    def __init__(self) -> None:
        self.nodes: dict[str, list] = {"/": [b"", 0, 0, False]}

    def multi(self, batch: list[Operation]) -> None:
        saved = {path: list(node) for path, node in self.nodes.items()}
        try:
            for operation in batch:
                self.apply(operation)
        except Refused:
            self.nodes = saved
            raise

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(
            p.removeprefix(prefix)
            for p in self.nodes
            if p.startswith(prefix) and "/" not in p[len(prefix) :] and p != "/"
        )

    def end_session(self) -> None:
        self.nodes = {path: node for path, node in self.nodes.items() if not node[3]}

    def apply(self, operation: Operation) -> None:
        if isinstance(operation, Create):
            parent = operation.path.rpartition("/")[0] or "/"
            if parent not in self.nodes or self.nodes[parent][3]:
                raise Refused
            path = operation.path + (f"{self.nodes[parent][2]:010d}" if operation.sequential else "")
            if path in self.nodes:
                raise Refused
            self.nodes[path] = [operation.data, 0, 0, operation.ephemeral]
            self.nodes[parent][2] += 1
            return
        node = self.nodes.get(operation.path)
        if node is None or operation.expected_version not in (-1, node[1]):
            raise Refused
        if isinstance(operation, Set):
            node[0], node[1] = operation.data, node[1] + 1
        elif isinstance(operation, Delete):
            if self.children(operation.path):
                raise Refused
            del self.nodes[operation.path]


def compare(store: Store, model: Model) -> None:
    for path, (content, version, created, _) in model.nodes.items():
        found, stat = store.get(path)
        children = model.children(path)
        assert (found, stat.version) == (content, version)
        assert store.children(path) == children
        assert (stat.num_children, stat.cversion) == (len(children), 2 * created - len(children))


def drive(store: Store, reopen: Callable[[Store], Store], steps: list) -> Store:
    model = Model()
    for step in steps:
        if step == "reopen":
            store = reopen(store)
            model.end_session()
        else:
            try:
                model.multi(step)
                expected = True
            except Refused:
                expected = False
            try:
                store.multi(step)
                done = True
            except NodeError:
                done = False
            assert done == expected, step
        compare(store, model)
    return store


@settings(deadline=None, max_examples=examples(40))
@given(steps=steps)
def test_the_embedded_store_behaves_like_a_dictionary_that_survives_reopening(steps: list) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/tidelog-metadata.sqlite"

        def reopen(store: Store) -> Store:
            store.close()
            return EmbeddedStore(path)

        drive(EmbeddedStore(path), reopen, steps).close()


@settings(deadline=None, max_examples=examples(60))
@given(steps=steps)
def test_the_store_in_memory_behaves_like_a_dictionary(steps: list) -> None:
    tree = MemoryTree()

    def reopen(store: Store) -> Store:
        store.close()
        return tree.connect()

    drive(tree.connect(), reopen, steps)
