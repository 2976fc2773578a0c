"""A contract for `lint-imports`: a module whose name begins with an underscore is private to its package.

`tidelog.storage._files` may be imported by every module of `tidelog.storage`, at any depth, and by no other.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """Broken by every import of a private module from outside of its package."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        crossings = [
            (importer, imported)
            for imported in sorted(graph.modules)
            if imported.partition(".")[0] in self.session_options["root_packages"]
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if is_crossing(importer, imported)
        ]
        return ContractCheck(kept=not crossings, metadata={"crossings": crossings})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["crossings"]:
            output.print_error(f"{importer} imports {imported}, which is private to its package")


def is_crossing(importer: str, imported: str) -> bool:
    """Whether `importer` lies outside of the package of a private module that `imported` is or lies in."""
    parts = imported.split(".")
    for depth, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            package = ".".join(parts[:depth])
            return importer != package and not importer.startswith(package + ".")
    return False
