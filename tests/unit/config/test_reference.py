"""The reference page names every setting, and the copy in docs is the current one."""

from pathlib import Path

from tidelog.config import BrokerConfig, LogConfig
from tidelog.config.reference import reference_markdown

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_every_setting_is_on_the_page() -> None:
    page = reference_markdown()
    for name in (*BrokerConfig.settings, *LogConfig.settings):
        assert f"| `{name}` |" in page


def test_numbers_are_explained_in_units() -> None:
    page = reference_markdown()
    assert "`1073741824` (1 GiB)" in page
    assert "`604800000` (7 d)" in page
    assert "`9223372036854775807` (no limit)" in page


def test_the_page_in_docs_is_current() -> None:
    """Write it anew with `python -m tidelog.config.reference > docs/configuration.md`."""
    assert PAGE.read_text(encoding="utf-8") == reference_markdown()
