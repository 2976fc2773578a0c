"""Shows the calls of a synchronous client on the site as the methods of its asyncio twin that they are.

`create_topics = blocking(AsyncAdmin.create_topics)` is an assignment to what reads the sources without running them;
here it becomes the function, with its arguments, types and docs.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from griffe import Attribute, Class, ExprCall, Extension, Function, GriffeLoader, Module

_MAKERS: Final = ("tidelog.client.faces.blocking", "tidelog.client.faces.called_there")


class Faces(Extension):
    """The extension that `mkdocs.yml` names."""

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: Any) -> None:
        """Replace the calls of all classes of a package."""
        for module in _modules(pkg):
            for owner in module.classes.values():
                if isinstance(owner, Class):
                    _show_calls(owner, loader)


def _modules(module: Module) -> list[Module]:
    return [
        module,
        *(found for each in module.modules.values() if isinstance(each, Module) for found in _modules(each)),
    ]


def _show_calls(owner: Class, loader: GriffeLoader) -> None:
    for name, member in list(owner.members.items()):
        value = member.value if isinstance(member, Attribute) else None
        if not isinstance(value, ExprCall) or value.function.canonical_path not in _MAKERS:
            continue
        found = loader.modules_collection[value.arguments[0].canonical_path]
        assert isinstance(found, Function), f"{owner.path}.{name} is not made of a method"
        shown = copy(found)
        shown.labels = found.labels - {"async"}
        shown.lineno, shown.endlineno = member.lineno, member.endlineno
        owner.set_member(name, shown)
