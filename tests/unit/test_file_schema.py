# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema for editors: it accepts each file that the program accepts, alone, and no clear mistake."""

from __future__ import annotations

import copy
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dnsteer.checks.load import check_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.file_schema import spec_file_schema, variables_schema
from dnsteer.spec.model.file import OWN_KEYS, SpecFile
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document, read_document
from dnsteer.spec.yaml_reader import parse_yaml, read_yaml
from tests.strategies import spec_values
from tests.unit.spec_text import changed

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.yaml"))
FILE = jsonschema.Draft202012Validator(spec_file_schema(), format_checker=jsonschema.FormatChecker())
VARIABLES = jsonschema.Draft202012Validator(variables_schema())

PARTS = {
    "dpu-1.yaml": """\
apiVersion: dnsteer/v1
requires: ">=0.1"
include: [site.yaml, pools/*.yaml]
switch:
  name: dpu-1
  mac: ${mac}
""",
    "site.yaml": """\
include: vips.yaml
vars: {site: ams, masks: 24, answers: true, half: 1.5}
switch:
  flavor: ${flavor}
  bridge: br-${site}
  pair: ${site}
  link_gbps: ${gbps}
  gateways: ["${gateway}"]
  uplinks:
    p0: {next_hop: "02:00:00:00:00:${router}"}
  probe: {addresses: ["${net}.9/24"]}
  console: {allow_changes: "${answers}"}
lint: {masks: "${masks}"}
""",
    "vips.yaml": """\
vips:
  dns:
    addresses: ["${vip}"]
    services: ["${service}", {protocol: tcp, port: "${port}"}]
    forwarding: null
  translated: {addresses: [192.0.2.54]}
defaults:
  vips: {pool: ns, echo: "${answers}", services: [dot], forwarding: nat}
""",
    "pools/ns.yaml": """\
defaults:
  backends: {weight: "${weight}", mac: 02:00:00:00:01:01}
  pools: {slow_start: "${half}s", health: {interval: "${interval}", query: {type: "${type}", name: example.org}}}
pools:
  ns:
    selection: source-port
    backends:
      - {name: a, ipv4: "${net}.11", state: "${state}"}
      - {name: b, ipv4: "${net}.12", weight: null, mac: 02:00:00:00:01:02}
""",
    "vars/dpu-1.yaml": """\
mac: 02:00:00:00:00:53
flavor: ovs-netdev
gbps: 100
gateway: 192.0.2.1
router: fe
net: 192.0.2
vip: 192.0.2.53
service: dns
port: 5353
weight: 3
interval: 2s
type: soa
state: up
""",
}


def write_parts(folder: Path, parts: dict[str, str]) -> Path:
    for name, text in parts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder / next(iter(parts))


@pytest.mark.parametrize("validator", [FILE, VARIABLES], ids=["spec", "variables"])
def test_the_schemas_are_valid_json_schemas(validator: jsonschema.Draft202012Validator) -> None:
    jsonschema.Draft202012Validator.check_schema(validator.schema)
    refs = set(re.findall(r"'\$ref': '#/\$defs/(\w+)'", str(validator.schema)))
    assert refs == set(validator.schema.get("$defs", {}))


def test_every_file_of_a_site_in_parts_is_valid(tmp_path: Path) -> None:
    main = write_parts(tmp_path, PARTS)
    loaded = check_document(read_document(main))
    assert [backend.weight for backend in loaded.spec.pools["ns"].backends] == [3, 1]
    assert loaded.spec.switch.bridge == "br-ams" and loaded.warnings == ()
    for name in PARTS:
        (VARIABLES if name.startswith("vars/") else FILE).validate(read_yaml(tmp_path / name).value)
        by_editors = yaml.safe_load((tmp_path / name).read_text())  # where 1.5 is a number
        (VARIABLES if name.startswith("vars/") else FILE).validate(by_editors)


@pytest.mark.parametrize(
    "part",
    [
        "pools: {}",
        "vips: {}",
        "switch: {}",
        "lint: {accept: []}",
        "vars: {}",
        "defaults: {}",
        "defaults: {vips: {}, pools: {}, backends: {}}",
        "switch: {bringup: {pci: {p0: '0000:03:00.${n}'}, multiport: '${yes}', memory: ['${n}']}}",
        "switch: {bringup: {hugepages: {size: '${n}M'}}}",
        "switch: {ports: {vf0: , vf1: {type: '${system}', options: {n_rxq: '${n}'}}}, gratuitous: }",
        "switch: {announce: {via: '${via}', when_none_pass: '${keep}', protocol: 'b${n}', hold_max: '${n}s'}}",
        "switch: {announce: {via: bird, when_none_pass: {med: '${n}'}}}",
        "switch: {gratuitous: {repeat: '${n}'}, vlans: '${any}', pair: '${keep}', hardware: 'bluefield-${n}'}",
        "lint: {accept: [{code: 'DNS01${n}', reason: '${keep}'}]}",
        "vips: {b: {addresses: ['${net}.1'], services: [{protocol: '${udp}', port: '${n}'}], pool: ns}}",
        "vips: {b: {addresses: [192.0.2.1], services: [dot], pool: '${keep}', announce: '${never}'}}",
    ],
)
def test_what_may_stand_in_a_part_is_valid(part: str, tmp_path: Path) -> None:
    words = ["keep", "any", "never", "system", "udp"]
    values = {"n": 2, "yes": True, "net": "192.0.2", "via": "bird", **{word: word for word in words}}
    main = changed(("apiVersion", "include: part.yaml\napiVersion"), ("switch:", "switch:\n  name: dpu-1"))
    files = {"main.yaml": main, "part.yaml": part, "vars/dpu-1.yaml": yaml.safe_dump(values)}
    Spec.model_validate(read_document(write_parts(tmp_path, files)).value)
    FILE.validate(parse_yaml("part.yaml", part).value)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: str(p.relative_to(p.parents[1])))
def test_every_example_is_valid(file: Path) -> None:
    (VARIABLES if file.parent.name == "vars" else FILE).validate(read_yaml(file).value)


@pytest.mark.parametrize(
    "text",
    [
        "poools: {}",
        "pools: {ns: {backends: [{name: a, wieght: 1}]}}",
        "pools: {ns: {backends: [{name: a, weight: heavy}]}}",
        "pools: {ns: {backends: [{name: a, weight: '1'}]}}",
        "pools: {ns: {backends: [{name: a, weight: [1]}]}}",
        "pools: {ns: {backends: [{name: a, state: off}]}}",
        "pools: {ns: {backends: [{name: '${a}'}]}}",
        "pools: {ns: {backends: [{ipv4: 192.0.2.11}]}}",
        "pools: {ns: {backends: [{name: a, ipv4: 192.0.2.311}]}}",
        "pools: {ns: {backends: '${all}'}}",
        "pools: {ns: {slots: 8}}",
        "pools: {ns: [a]}",
        "pools: {'${ns}': {backends: [{name: a}]}}",
        "vips: {dns: {'${key}': 1, addresses: [192.0.2.53]}}",
        "vips: {dns: {services: [dns]}}",
        "vips: {dns: {addresses: [192.0.2.53], services: [dnss]}}",
        "vips: {dns: {addresses: [192.0.2.53], echo: 'yes'}}",
        "switch: {mac: '$${mac}'}",
        "switch: {mac: '${1}'}",
        "switch: {mac: '${mac'}",
        "switch: {mac: null}",
        "switch: {probe: {mac: 02:00:00:00:00:01}}",
        "apiVersion: ${version}",
        "apiVersion: dnsteer/v2",
        "include: []",
        "include: ['${site}.yaml']",
        "include: '**/a.yaml'",
        "include: {a: b}",
        "include: null",
        "vars: {a-b: 1}",
        "vars: {a: [1]}",
        "vars: {a: null}",
        "vars: {a: 'x${b}'}",
        "defaults: {backends: {name: a}}",
        "defaults: {vips: {addresses: [192.0.2.53]}}",
        "defaults: {switch: {}}",
        "defaults: {pools: {selection: best}}",
        "requires: [1]",
    ],
)
def test_mistakes_are_not_valid(text: str) -> None:
    assert not FILE.is_valid(parse_yaml("x", text).value)


@pytest.mark.parametrize("text", ["a-b: 1", "1a: x", "a: [1]", "a: {b: 1}", "a: null", "a: '${b}'", "[a]"])
def test_mistakes_in_files_of_variables_are_not_valid(text: str) -> None:
    assert not VARIABLES.is_valid(parse_yaml("x", text).value)


POOL = "    backends:\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (POOL, f"    balance: {{by: metric, source: push}}\n{POOL}"),
        (POOL, f"    balance: {{by: metric, source: probe-latency}}\n    health: {{}}\n{POOL}"),
        (POOL, f"    health: {{query: {{name: a.b, type: soa, expect: {{rcode: [NoError, refused]}}}}}}\n{POOL}"),
        (POOL, f"    health: {{query: {{class: ch}}}}\n{POOL}"),
        (
            POOL,
            f"    balance: {{policy: spill, source: push, to: 7, above: 80%}}\n{POOL}"
            "      - {name: 7, ipv4: 192.0.2.13, mac: 02:00:00:00:01:03, weight: 0}\n",
        ),
        ("switch:\n  flavor: ovs-netdev\n", "switch:\n  flavor: ovs-doca\n  bringup: {dpdk_extra: 5}\n"),
    ],
    ids=["push", "latency", "lower case", "class", "spill", "arguments"],
)
def test_values_that_may_be_written_in_more_ways_are_valid(old: str, new: str) -> None:
    document = parse_document("x", changed((old, new)))
    check_document(document)
    FILE.validate(document.value)


def test_descriptions_examples_and_defaults_stay_where_editors_look() -> None:
    before, after = SpecFile.model_json_schema(by_alias=True), spec_file_schema()
    mappings = {name: model for name, model in before["$defs"].items() if "properties" in model}
    for name, model in mappings.items():
        assert after["$defs"][name]["description"] == model["description"]
    for then, now in [(before, after), *((mappings[name], after["$defs"][name]) for name in mappings)]:
        for key, value in then["properties"].items():
            kept = now["properties"][key]
            about = ("description", "default", "examples", "title")
            assert [kept.get(word) for word in about] == [value.get(word) for word in about], key
            assert kept.get("description") or "$ref" in kept, key
            assert {word: kept.get(word) for word in value if word.startswith("x-")} == {
                word: about for word, about in value.items() if word.startswith("x-")
            }


def test_what_a_value_may_be_has_no_description_that_editors_show_instead_of_that_of_the_key() -> None:
    others = [model for model in spec_file_schema()["$defs"].values() if "properties" not in model]
    assert others and not any("description" in model or "title" in model for model in others)


# --- what the program accepts is valid


def scalars(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of the scalars that may be a variable's."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from scalars(each, (*path, key))
    elif value is not None and path != ("apiVersion",) and not (path[-3:-2] == ("backends",) and path[-1] == "name"):
        yield path


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def objects(value: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    if kind == "backends":
        return [backend for pool in value["pools"].values() for backend in pool["backends"]]
    return list(value[kind].values())


def move_to_defaults(draw: st.DrawFn, value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Take some keys out of the objects of *value* that have one value for them, as defaults."""
    found: dict[str, dict[str, Any]] = {}
    for kind, own in OWN_KEYS.items():
        keys = sorted({key for each in objects(value, kind) for key in each if key not in own})
        for key in draw(st.lists(st.sampled_from(keys), unique=True, max_size=2)) if keys else []:
            default = draw(st.sampled_from([each[key] for each in objects(value, kind) if key in each]))
            found.setdefault(kind, {})[key] = copy.deepcopy(default)
            for each in objects(value, kind):
                if key not in each:
                    each[key] = None  # as it is without the default
                elif each[key] == default:
                    del each[key]
    return found


@st.composite
def specs_in_parts(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec as a value, and files by name that amount to it, the spec's own first."""
    whole = draw(spec_values())
    value = copy.deepcopy(whole)
    value["switch"]["name"] = whole["switch"]["name"] = "dpu-1"
    defaults = move_to_defaults(draw, value)
    rest = {**value, **({"defaults": defaults} if defaults else {})}
    variables: dict[str, Any] = {}
    movable = [path for path in scalars(rest) if path != ("switch", "name")]
    for number, path in enumerate(draw(st.lists(st.sampled_from(movable), unique=True, max_size=8))):
        variables[f"v{number}"] = at(rest, path)
        at(rest, path[:-1])[path[-1]] = f"${{v{number}}}"
    names = ["main.yaml", "a.yaml", "more/b.yaml"]
    parts: dict[str, Any] = {name: {} for name in [*names, "vars/dpu-1.yaml"]}
    parts["main.yaml"] |= {"include": ["a.yaml", "more/*.yaml"], "apiVersion": rest.pop("apiVersion")}
    for section, keys in [*rest.items(), ("vars", variables)]:
        for key, each in keys.items():
            name = draw(st.sampled_from([*names, "vars/dpu-1.yaml"] if section == "vars" else names))
            place = parts[name] if name.startswith("vars/") else parts[name].setdefault(section, {})
            place[key] = each
    return whole, parts


@settings(max_examples=100, deadline=None)
@given(both=specs_in_parts())
def test_files_of_a_spec_in_parts_are_valid_and_amount_to_it(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    whole, parts = both
    with tempfile.TemporaryDirectory() as folder:
        main = write_parts(Path(folder), {name: yaml.safe_dump(value) for name, value in parts.items()})
        assert read_document(main).value == whole
        for name in parts:
            (VARIABLES if name.startswith("vars/") else FILE).validate(read_yaml(Path(folder) / name).value)


VALUES = [read_document(file).value for file in EXAMPLES if file.parent.name == "examples"]
WORDS = st.sampled_from(
    ["up", "Up", "soa", "push", "never", "a", "7", "1.5", "10s", "5%", "02:00:00:00:00:FF", "192.0.2.99", "2001:DB8::9"]
)
OTHERS = st.one_of(
    WORDS, st.integers(0, 70000), st.booleans(), WORDS.map(lambda word: [word]), st.just([]), st.just({})
)


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_a_changed_example_that_the_program_accepts_is_valid(data: st.DataObject) -> None:
    value = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(scalars(value))))
        if data.draw(st.booleans()):
            at(value, path[:-1])[path[-1]] = data.draw(OTHERS)
        else:
            del at(value, path[:-1])[path[-1]]
    try:
        check_document(parse_document("x", yaml.safe_dump(value)))
    except SpecError:
        return
    FILE.validate(value)
