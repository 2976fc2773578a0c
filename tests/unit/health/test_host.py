"""A settings file with which no broker starts is found before one is started."""

from __future__ import annotations

from pathlib import Path

from tidelog.health.findings import Level
from tidelog.health.host import examine_host


def test_a_setting_that_is_refused_is_named(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("num.partitions=many\n")
    bad = [each for each in examine_host(config) if each.level is Level.BAD]
    assert len(bad) == 1
    assert "num.partitions" in bad[0].text


def test_a_good_file_has_no_findings_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path / 'data'}\n")
    assert not [each for each in examine_host(config) if each.level is Level.BAD]
