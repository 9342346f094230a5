# SPDX-License-Identifier: Apache-2.0
"""Write docs/spec.md, pipeline.md, settings.md, metrics.md, modules.md, tables in pages and Grafana's dashboard from the code, and outputs of commands in pages.

`--check` writes nothing and fails when a page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import comparison_page
import dashboard
import outputs
import tables

from dnsteer.checks.load import load_spec
from dnsteer.modes import MODES
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import Flow, flows_of
from dnsteer.render.templates import register_value
from dnsteer.spec.model import (
    announce,
    balance,
    bringup,
    extension,
    file,
    health,
    limits,
    lint,
    probe,
    spec,
)
from dnsteer.spec.model.part import Part, keys_of, since_of
from dnsteer.spec.yaml_text import yaml_text
from dnsteer.tables.cookies import COOKIE_MASK, COOKIE_TAG, FENCE, GROUP_BASE, GROUP_LAST, OBJECT_BITS, Category
from dnsteer.tables.ingress import QUERY
from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.vip import TRANSPORT

DOCS = Path(__file__).resolve().parent
EXAMPLE = "examples/one-armed-nat.yaml"
MADE = "<!-- Made by docs/generate.py (make docs). Change the code, not this page. -->\n\n"

PARTS: tuple[tuple[str, type[Part]], ...] = (
    ("The document", file.SpecFile),
    ("`defaults`", file.Defaults),
    ("`switch`", spec.Switch),
    ("`switch.uplinks.NAME`", spec.Uplink),
    ("`switch.ports.NAME`", spec.Port),
    ("`switch.extension`", extension.Extension),
    ("`switch.extension.ingress` and `egress`", extension.ExtensionPort),
    ("`switch.extension.budgets`", extension.Budgets),
    ("`switch.probe`", probe.Probe),
    ("`switch.gratuitous`", spec.Gratuitous),
    ("`switch.announce`", announce.Announce),
    ("`switch.console`", spec.Console),
    ("`switch.limits`", limits.SwitchLimits),
    ("`switch.bringup`", bringup.BringUp),
    ("`switch.bringup.hugepages`", bringup.Hugepages),
    ("`switch.bringup.functions[]`", bringup.ScalableFunction),
    ("`pools.NAME`", spec.Pool),
    ("`pools.NAME.backends[]`", spec.Backend),
    ("`pools.NAME.backup`", spec.Backup),
    ("`pools.NAME.balance`", balance.Balance),
    ("`pools.NAME.balance.source`", balance.MetricSource),
    ("`pools.NAME.health[]`", health.HealthCheck),
    ("`pools.NAME.health[].query`", health.Query),
    ("`pools.NAME.health[].query.expect`", health.Expect),
    ("`vips.NAME`", spec.Vip),
    ("`vips.NAME.services[]`", spec.Service),
    ("`vips.NAME.limits`", limits.VipLimits),
    ("`vips.NAME.announce`", announce.VipAnnounce),
    ("`lint`", lint.Lint),
    ("`lint.accept[]`", lint.Accept),
)

MASKS = """## Masks

A megaflow matches the bits that the tables on a packet's way had to match, and wildcards all others: these bits are its mask. Every mask is one
more hash table that software searches for a packet, and one more table in hardware, so nobody must be able to make many of them. By
default Open vSwitch unwildcards as few bits as it can: of a port that is not 53, only the first bits up to the one that differs, and of an
address likewise. A list of flows and a drop below it then make a mask for each prefix length (16 of a port, 32 or 128 of an
address), and two such fields multiply: anybody who sends packets can make hundreds.

So what is dropped unwildcards the same bits as what passes. A flow that copies a field to a scratch register, which no flow matches
(`move:NXM_OF_UDP_DST[]->NXM_NX_XXREG3[0..15]`), unwildcards all of that field, at no cost in the datapath: the megaflow has no action for it. Every
table ends with such flows, and a table matches no field that they leave out. What this buys and costs:

- Masks no longer depend on the traffic: `dnsteer` computes all that the flows can make.
- What is dropped would make more megaflows, one for each whole port or address. So ports and addresses are looked at a few
  bits at a time (*windows*), before anything else: `protect` matches the low 8 bits of the port and `port` all of it,
  at most 255 megaflows each for a transport and a family; then `address1` to `address7` match the VIPs' addresses by their
  prefixes, 8 to 10 bits more in each, at most 1,023 megaflows each. Somebody who knows a VIP can walk all windows: for the
  host part of a /64 that makes 4,089 megaflows, in place of one for each of 2^64 addresses. A mask is the price of each.
- The first window has all bits that a router chooses and nobody behind it: those of the prefixes in `switch.routed`. With
  wider prefixes the windows are wider too, since there are seven at most.
- Gateways and the port for probes get answers of backends, whose source address is matched whole. What a router (`next_hop`)
  sends there is dropped by its MAC address.
- Idle megaflows expire (`max-idle`), and `flow-limit` bounds their number.
- Pools with other numbers of slots have masks of their own, one for each number and family.
"""


def spec_page() -> str:
    """The reference of the spec."""
    out = [MADE + "# The spec\n"]
    out.append(
        "All keys of a spec. One YAML file describes one switch; [of several files](parts.md) it is one too. Editors complete it with the schema that `dnsteer schema` prints. *since* is the first version of dnsteer that has the key (`x-since` in the schema). Plain scalars are "
        "numbers, `true`, `false`, `null` or text as written; anchors, aliases, tags and duplicate keys are refused. What the fields do to packets: [forwarding](forwarding.md).\n"
    )
    for title, part in PARTS:
        out += [f"## {title}\n\n{part.__doc__}\n", key_table(part), ""]
    out.append("## Short names of services\n\n| name | stands for |\n|---|---|")
    for name, entries in spec.SHORTHANDS.items():
        out.append(f"| `{name}` | {', '.join(f'{protocol.value}/{port}' for protocol, port in entries)} |")
    out.append(
        "\n## Editors\n\nWhich schema is for which file, and how an editor gets it: [commands](commands.md#editors)."
    )
    return "\n".join(out) + "\n"


def key_table(part: type[Part]) -> str:
    """The table of a part's keys."""
    out = ["| key | value | default | since | meaning |\n|---|---|---|---|---|"]
    schema = part.model_json_schema()
    for name, field in keys_of(part).items():
        value = _value(schema["properties"][name], schema)
        default = "**required**" if field.is_required() else _default(field)
        out.append(f"| `{name}` | {value} | {default} | {since_of(part, name)} | {field.description} |")
    return "\n".join(out)


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == {} or value == [] or isinstance(value, Part):
        return ""  # of a part the page has the defaults key by key
    return f"`{yaml_text(value, field)}`"


def _value(prop: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in prop:
        return _value(schema["$defs"][prop["$ref"].split("/")[-1]], schema)
    if "anyOf" in prop:
        ways = [
            way for way in prop["anyOf"] if "$comment" not in way
        ]  # one with a comment is another spelling of another
        return " or ".join(v for way in ways if (v := _value(way, schema)) != "null")
    if "oneOf" in prop:
        return " or ".join(_value(p, schema) for p in prop["oneOf"])
    if "enum" in prop:
        return ", ".join(f"`{v}`" for v in prop["enum"])
    if "const" in prop:
        return f"`{prop['const']}`"
    kind = prop.get("type", "mapping")
    if kind == "array":
        return f"list of {_value(prop['items'], schema)}"
    if kind == "object":
        return "mapping"
    if kind == "integer":
        return f"{prop.get('minimum', '')} to {prop.get('maximum', '')}"
    if kind == "boolean":
        return "`true`, `false`"
    return f"such as `{prop['examples'][0]}`" if "examples" in prop else str(kind)


def pipeline_page() -> str:
    """Tables, registers, cookies, and a numbered dump explained."""
    out = [MADE + "# The pipeline\n"]
    out.append(
        "The OpenFlow tables, registers, cookies and flows of the bridge. Tables cost nothing: Open vSwitch flattens a packet's way through them into one megaflow. To change a table, change "
        "its template in `templates/tables/`; its rows, registers and place are in `generator/dnsteer/tables/`.\n"
    )
    out.append("## Tables\n\n| number | name | matches | does | leads to |\n|---|---|---|---|---|")
    out += tables.table_rows()
    out.append("\n## Registers\n\n| register | name | live in tables | meaning |\n|---|---|---|---|")
    for r in sorted(PIPELINE.registers.values(), key=lambda r: r.number):
        out.append(
            f"| {r.field} | {r.name} | {PIPELINE.owners[r.name].name} to {r.until} | {r.meaning}{_modes() if r.name == 'mode' else ''} |"
        )
    out.append(
        f"\n## Cookies and groups\n\nBits 48 to 63 of a cookie are the tag `0x{COOKIE_TAG:x}` (mask `0x{COOKIE_MASK:x}`): flows "
        f"without it are not dnsteer's and are never touched, but for those of a switch on standby, whose tag is "
        f"`0x{COOKIE_TAG + 1:x}`: `dnsteer role` adds and removes them apart from the tables. Bits {OBJECT_BITS} to 47 are the category, the rest the object's "
        "number. `dnsteer explain SPEC --cookie 0x...` names the object and its line in the spec. Numbers of pools, backends and "
        "ports are hashes of their names, so adding one does not renumber the others. Groups and meters have no cookie; ours are numbered "
        f"{GROUP_BASE} to {GROUP_LAST}, and group {FENCE}, which ties each bundle to the tables that it was made for "
        f"([operations.md](operations.md)).\n\n| category | object |\n|---|---|"
    )
    out += [f"| {c.value} | {c.name.lower()} |" for c in Category]
    out.append(
        f"\n## A dump, flow by flow\n\nThe flows of `{EXAMPLE}`, one of each shape, as `ovs-ofctl -O OpenFlow15 --no-stats "
        "dump-flows` prints them (ports by name).\n\n```"
    )
    chosen = list(_one_of_each())
    out += [f"{i:>2}. {flow.line()}" for i, (_, flow) in enumerate(chosen, 1)]
    out.append("```\n")
    out += [f"{i}. {why}" for i, (why, _) in enumerate(chosen, 1)]
    out.append(
        "\nFlows of priorities below 100 are for what no other flow of the table matches; their counters show the misses.\n\n"
        + MASKS
    )
    return "\n".join(out) + "\n"


def _modes() -> str:
    return ": " + ", ".join(f"{mode.number} {mode.word.value}" for mode in MODES.values() if mode.number)


def _one_of_each() -> Iterator[tuple[str, Flow]]:
    """Yield a flow of each shape, with why it is there."""
    names = {t.number: t.name for t in TABLES}
    seen = set()
    for flow in flows_of(build_plan(load_spec(DOCS.parent / EXAMPLE))):
        table = PIPELINE.tables[names[flow.table]]
        if flow.priority == 0 and flow.actions == "drop" and table.traffic:
            continue
        shape = _shape(table.name, flow)
        if shape not in table.flows:
            raise SystemExit(f"{table.file}: flows= has no explanation for {shape!r}: {flow.line()}")
        if (table.template_file, shape) not in seen:
            seen.add((table.template_file, shape))
            yield table.flows[shape], flow


_LOWEST_MATCH = 100
"""Flows of a lower priority are fallbacks, for packets that no other flow matches."""


def _shape(table: str, flow: Flow) -> str:
    first = flow.match.split(",")[0]
    if table == "state":
        return "any"
    if flow.priority < _LOWEST_MATCH:
        low = ",nw_frag=no" in flow.match
        return "low" if low else f"miss {first}" if table == "neighbor" else "miss"
    if table == "ingress" and "dl_dst" in flow.match and first != "icmp":
        return (
            "query"
            if f"set_field:{register_value(QUERY)}->{PIPELINE.registers['path'].field}," in flow.actions
            else "answer"
        )
    if table == "egress":
        return "answer" if "reg4=0x2" in flow.match else "query"
    if table == "forward":
        numbers = {f"{PIPELINE.registers['transport'].field}=0x{n:x}": name for name, n in TRANSPORT.items()}
        return f"{first} {numbers[flow.match.split(',')[-1]]}"
    if table in ("protect", "port"):
        return "port"
    if table == "return" and "dl_src" in flow.match:
        return "router"
    if first.startswith("reg"):
        return "register"
    parts = flow.match.split(",")
    extra = {"ipv6_src=::": "dad", "icmp_type=135": "ns", "ipv6_dst=ff02::1": "all"}
    word = next((word for mark, word in extra.items() if mark in parts), "")
    if any(part.startswith("nw_frag=") and part != "nw_frag=no" for part in parts):
        word = "frag"
    return f"{first} {word}".rstrip()


def _page_with_tables(name: str, made: Callable[[str], str]) -> str:
    """A page that people wrote, with its tables made anew."""
    return made((DOCS / name).read_text(encoding="utf-8"))


PAGES = {
    "agent.md": lambda: _page_with_tables("agent.md", tables.agent_page),
    "architecture.md": lambda: _page_with_tables("architecture.md", tables.architecture_page),
    "architecture.svg": tables.architecture_picture,
    "comparison.md": lambda: _page_with_tables("comparison.md", comparison_page.comparison_page),
    "modules.md": lambda: MADE + tables.modules_page(),
    "servers.md": lambda: _page_with_tables("servers.md", tables.servers_page),
    "spec.md": spec_page,
    "pipeline.md": pipeline_page,
    "settings.md": lambda: MADE + tables.settings_page(),
    "metrics.md": lambda: MADE + tables.metrics_page(),
}
"""The pages that the code makes whole."""
ELSEWHERE = {"ovs/monitoring/grafana-dashboard.json": dashboard.dashboard}
"""Other files that it makes whole."""


def pages_with_outputs() -> list[str]:
    """The pages that people write and that may show outputs."""
    made = {f"docs/{name}" for name in PAGES}
    found = [str(file.relative_to(DOCS.parent)) for file in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))]
    return [name for name in found if name not in made]


def main() -> int:
    """Write the pages and the outputs in the others, or with --check compare them."""
    root, wrong = DOCS.parent, []
    texts = {f"docs/{name}": make() for name, make in PAGES.items()}
    texts |= {name: make() for name, make in ELSEWHERE.items()}
    with ProcessPoolExecutor(max_workers=2) as pool:
        made = {name: pool.submit(outputs.page, root, name) for name in pages_with_outputs()}
        for name, future in made.items():
            try:
                texts[name] = future.result()
            except outputs.OutputError as error:
                wrong.append(str(error))
    for name, text in texts.items():
        file = root / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            if "--check" in sys.argv:
                wrong.append(f"stale: {name}{_first_difference(file, text)}; run: make docs")
            else:
                file.write_text(text, encoding="utf-8")
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


def _first_difference(file: Path, text: str) -> str:
    """Where a page is stale: the first line that would change, as it is and as it would be."""
    old, new = (file.read_text(encoding="utf-8").split("\n") if file.exists() else []), text.split("\n")
    for n, (a, b) in enumerate(zip_longest(old, new, fillvalue=""), 1):
        if a != b:
            return f":{n}\n  is        {a.strip()}\n  should be {b.strip()}\n "
    return ""


if __name__ == "__main__":
    sys.exit(main())
