"""The dashboard and the alert rules in `ops/` ask for metrics that brokers export, by labels that these have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.compat.metrics.use import Labels

OPS = Path(__file__).parents[3] / "ops"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds when it scrapes."""
NOT_ALWAYS = {"place"}
"""Labels of metrics that have no samples in a broker that fares well."""


def expressions() -> list[str]:
    board = json.loads((OPS / "grafana" / "tidelog.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    found += [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    rules = (OPS / "prometheus" / "alerts.yml").read_text()
    alerts = re.findall(r"^ +expr: (.+)$", rules, re.MULTILINE)
    assert len(alerts) == rules.count("- alert: ")
    return found + alerts


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_of_an_expression_is_exported_with_its_labels(expression: str, ours: Labels) -> None:
    found = re.findall(r"((?:kafka|tidelog|process|python)_\w+)(?:\{([^}]*)\})?", expression)
    assert found, expression
    for name, matchers in found:
        if "stall" not in name:
            assert name in ours, name
        asked = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers)) - OF_PROMETHEUS
        for label in asked - NOT_ALWAYS:
            assert any(label in labels for labels in ours[name]), (name, label)
    grouped = {label.strip() for each in re.findall(r"by \(([^)]*)\)", expression) for label in each.split(",")}
    shown = {label for name, _ in found for labels in ours.get(name, ()) for label in labels}
    assert grouped <= shown | OF_PROMETHEUS | NOT_ALWAYS
