# SPDX-License-Identifier: Apache-2.0
"""What an agent serves at /metrics, as Prometheus reads it."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from io import BytesIO

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.packet.agents import Agent

METRICS = ("--metrics", "127.0.0.1:0")
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Labels = frozenset[tuple[str, str]]
Scraped = Mapping[tuple[str, Labels], float]


def address(agent: Agent) -> str:
    """Where it serves, such as http://127.0.0.1:1234."""
    agent.waits_for("metrics at http://")
    found = re.search(r"metrics at (http://\S+)/metrics", agent.said())
    assert found is not None
    return found[1]


def get(url: str, accept: str = "", method: str = "GET") -> tuple[str, Message]:
    """The body, and the headers."""
    request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode(), answer.headers
    except urllib.error.HTTPError as err:
        body = err.read()  # which says why
        raise urllib.error.HTTPError(
            url, err.code, f"{err.reason}: {body.decode()}", err.headers, BytesIO(body)
        ) from None


def get_read(url: str) -> str:
    """A page of the console, once it shows what it reads itself."""
    for _ in range(200):
        text = get(url)[0]
        if 'aria-busy="true"' not in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def shows(url: str, text: str) -> bool:
    """Whether a page has a text. An agent says where it serves a moment before it does."""
    try:
        return text in get(url)[0]
    except urllib.error.URLError:
        return False


def scrape(at: str, accept: str = "") -> Scraped:
    """All samples, by name and labels."""
    text, headers = get(f"{at}/metrics", accept)
    read = openmetrics.text_string_to_metric_families if "openmetrics" in headers["content-type"] else None
    families = list((read or text_string_to_metric_families)(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family that is there twice"
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): float(sample.value) for sample in samples}
    assert len(found) == len(samples), "a series that is there twice"
    return found


def value(found: Scraped, name: str, **labels: str) -> float | None:
    """The sum of all series that have these labels; None if there is none."""
    here = [n for (series, has), n in found.items() if series == name and labels.items() <= dict(has).items()]
    return sum(here) if here else None
