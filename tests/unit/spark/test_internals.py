"""The versions of Spark that Tidelog works with."""

import pytest

from tidelog.spark.internals import TRIED, UntriedSpark, check_version


@pytest.mark.parametrize("version", [*(f"{each}.1" for each in TRIED), "4.3.0.dev1"])
def test_versions_that_were_tried_are_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.0", "4.1.4", "4.4.0", "40.3.0"])
def test_others_are_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(UntriedSpark, match=rf"this is Spark {version}, .*pip install 'pyspark~=4.3.0'"):
        check_version(version)


def test_the_installed_version_is_one_of_them() -> None:
    check_version()
