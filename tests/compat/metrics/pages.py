"""Pages of metrics as tests read them: over HTTP, with Prometheus' own parsers, in both formats."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Page:
    """The samples of one page."""

    def __init__(self, text: str, *, is_openmetrics: bool = False) -> None:
        self.families = list((parse_openmetrics if is_openmetrics else parse_text)(text))

    @classmethod
    def read(cls, url: str, accept: str = "*/*") -> Page:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=30) as response:
            is_openmetrics = response.headers["Content-Type"].startswith("application/openmetrics-text")
            assert is_openmetrics == (accept == OPENMETRICS)
            return cls(response.read().decode(), is_openmetrics=is_openmetrics)

    def samples(self) -> Iterator[Sample]:
        for family in self.families:
            yield from family.samples

    @property
    def label_names(self) -> dict[str, set[frozenset[str]]]:
        """The sets of labels that each name has."""
        found: dict[str, set[frozenset[str]]] = {}
        for sample in self.samples():
            found.setdefault(sample.name, set()).add(frozenset(sample.labels))
        return found

    def value(self, name: str, **labels: str) -> float:
        """The one sample with this name and these labels."""
        found = [each.value for each in self.samples() if each.name == name and each.labels == labels]
        assert len(found) == 1, f"{name}{labels} is there {len(found)} times"
        return found[0]
