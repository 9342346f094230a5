# SPDX-License-Identifier: Apache-2.0
"""Every metric, defined once: /metrics, docs/metrics.md and the Grafana dashboard are made from this list.

Names keep to Prometheus's conventions: base units, `_total` for counters, `_info` for labels that are a value.
"""

from __future__ import annotations

from dnsteer.metrics.family import Family
from dnsteer.metrics.service_families import POOLS, TRAFFIC
from dnsteer.metrics.switch_families import AGENT, SWITCH
from dnsteer.spec.errors import DefinitionError, near

FAMILIES: tuple[Family, ...] = (*TRAFFIC, *POOLS, *SWITCH, *AGENT)
BY_NAME = {family.name: family for family in FAMILIES}


def metric_family(name: str) -> Family:
    """Return the family of a name. Raises DefinitionError if none is called so."""
    if name not in BY_NAME:
        raise DefinitionError(f"no family in dnsteer/metrics/*_families.py is called {name}; {near(name, BY_NAME)}")
    return BY_NAME[name]


SERIES = {series: family for family in FAMILIES for series in family.series}
"""The family of each name that a query may have."""
