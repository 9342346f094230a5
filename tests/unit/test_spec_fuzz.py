# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in: a spec that can be planned or an error that can be printed, nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.targets import probe_targets
from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.spec.errors import SpecError, show_path
from dnsteer.spec.model.health import QUERY_TYPES
from dnsteer.spec.read import parse_document, read_document

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


def held(text: str) -> None:
    try:
        loaded = check_document(parse_document("spec.yaml", text))
    except SpecError as error:
        assert error.findings
        last = text.count("\n") + text.count("\r") + 1
        for finding in error.findings:
            assert finding.found and finding.expected
            assert 0 <= finding.line <= last
            assert all(line.isprintable() and len(line) < 1000 for line in finding.text("spec.yaml").split("\n"))
        assert len({(f.line, f.path, f.found, f.expected) for f in error.findings}) == len(error.findings)
    else:
        build_plan(loaded)


WORDS = """
a b p0 vf0 ns nat dsr
02:00:00:00:00:53 01:00:00:00:00:01 192.0.2.11 2001:db8::53 dns udp 0 1 53 65536 null true yes ~ << * & !
[key] mapping word name addresses services pool backends switch uplinks port target_port gateways slots weight
"""
words = st.sampled_from(WORDS.split())
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | words
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=200))
@example(text="? [a, b]\n: c\n")
@example(text="- *a\n")
@example(text="{? {? : }}")
@example(text="?\n?\n?")
def test_random_text_is_loaded_or_refused(text: str) -> None:
    held(text)


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(
        st.sampled_from([*"[]{}:,-?&*!|>'\"%@`# \n\t", "\n  ", "a", "1", "<<", "---\n", "...\n"]), max_size=60
    ).map("".join)
)
def test_random_yaml_punctuation_is_loaded_or_refused(text: str) -> None:
    held(text)


@settings(max_examples=200, deadline=None)
@given(tree=trees)
def test_random_trees_are_loaded_or_refused(tree: Any) -> None:
    held(yaml.safe_dump(tree, allow_unicode=True))


@settings(max_examples=200, deadline=None)
@given(
    parts=st.fixed_dictionaries({"apiVersion": st.just("dnsteer/v1"), "switch": trees, "pools": trees, "vips": trees})
)
def test_random_sections_are_loaded_or_refused(parts: dict[str, Any]) -> None:
    held(yaml.safe_dump(parts))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


VALUES = [read_document(file).value for file in EXAMPLES]


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_mutated_examples_are_loaded_or_refused(data: st.DataObject) -> None:
    value = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in places(value) if p] or [()]))
        if not path:
            break
        parent, key = at(value, path[:-1]), path[-1]
        what = data.draw(st.sampled_from(["replace", "remove", "copy", "swap", "rename"]))
        if what == "remove":
            del parent[key]
        elif what == "copy" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        elif what == "rename" and isinstance(parent, dict):
            parent[data.draw(words)] = parent.pop(key)
        elif what == "swap":
            parent[key] = copy.deepcopy(at(value, data.draw(st.sampled_from(list(places(value))))))
        else:
            parent[key] = data.draw(scalars | trees)
    held(yaml.safe_dump(value, sort_keys=False))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_examples_with_changed_characters_are_loaded_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([file.read_text() for file in EXAMPLES]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 12))
        text = text[:start] + data.draw(st.text(max_size=3) | words) + text[end:]
    held(text)


@given(path=st.lists(st.integers(0, 9) | st.text(max_size=80)).map(tuple))
def test_random_paths_can_be_shown(path: tuple[str | int, ...]) -> None:
    assert show_path(path).startswith("$")


HEALTH = """\
apiVersion: dnsteer/v1
switch: {flavor: ovs-netdev, bridge: br-dns, mac: '02:00:00:00:00:53', uplinks: {p0: }}
pools:
  ns:
    backends: [{name: a, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}]
    health: CHECK
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: ns}
"""
DATA = st.text(max_size=80) | st.lists(
    st.sampled_from(
        ["192.0.2.1", "2001:db8::1", "ns1", "ns1.", "10", '"', "\\", "\\000", "@", "alpn=h2", "(", ";", "\\#"]
    ),
    max_size=9,
).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(name=st.text(max_size=80), kind=st.sampled_from(QUERY_TYPES), data=DATA)
def test_random_queries_are_refused_or_can_be_sent(name: str, kind: str, data: str) -> None:
    """An agent gets what it can ask and compare."""
    check = {"query": {"name": name, "type": kind, "expect": {"answer": data}}}
    text = yaml.safe_dump(check, default_flow_style=True, width=9999).strip()
    try:
        loaded = check_document(parse_document("spec.yaml", HEALTH.replace("CHECK", text)))
    except SpecError:
        held(HEALTH.replace("CHECK", text))
        return
    for target in probe_targets(loaded.spec):
        asked = Question(target.query)
        assert asked.is_answer(asked.wire(7)[:2] + b"\x80" + asked.wire(7)[3:], asked.wire(7)) or "*" in name
