"""Which imports the contract on private modules objects to."""

import pytest

from tests.import_contract import is_crossing


@pytest.mark.parametrize(
    ("importer", "imported", "expected"),
    [
        ("tidelog.storage.log", "tidelog.storage._files", False),
        ("tidelog.storage.log._log", "tidelog.storage._files", False),
        ("tidelog.storage", "tidelog.storage._files", False),
        ("tidelog.spark.source", "tidelog.storage._files", True),
        ("tidelog.storagex", "tidelog.storage._files", True),
        ("tidelog.storage.cleaner.manager", "tidelog.storage.log._log", True),
        ("tidelog.spark", "tidelog._private.module", False),
        ("pyspark_tidelog", "tidelog._private.module", True),
        ("tidelog.cli", "tidelog.__main__", False),
    ],
)
def test_only_the_package_of_a_private_module_may_import_it(importer: str, imported: str, expected: bool) -> None:
    assert is_crossing(importer, imported) == expected
