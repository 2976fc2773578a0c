"""Which modules go to the executors."""

from pathlib import Path
from types import ModuleType

from tidelog.spark.pipeline.running.neighbours import neighbours


def _module(name: str, file: str | None, directory: str | None = None) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = file
    if directory is not None:
        module.__path__ = [directory]
    return module


def test_files_and_packages_beside_the_pipeline_go_along_and_nothing_else() -> None:
    modules = {
        "tidelog_pipeline_orders": _module("tidelog_pipeline_orders", "/jobs/orders.py"),
        "__main__": _module("__main__", "/jobs/main.py"),
        "helper": _module("helper", "/jobs/helper.py"),
        "shop": _module("shop", "/jobs/shop/__init__.py", "/jobs/shop"),
        "shop.prices": _module("shop.prices", "/jobs/shop/prices.py"),
        "spaces": _module("spaces", None, "/jobs/spaces"),
        "json": _module("json", "/usr/lib/python3/json/__init__.py", "/usr/lib/python3/json"),
        "builtins": _module("builtins", None),
        "elsewhere": _module("elsewhere", "/other/elsewhere.py"),
    }
    found = neighbours(modules, [Path("/jobs")])
    assert found == [Path("/jobs/helper.py"), Path("/jobs/shop"), Path("/jobs/spaces")]
