# SPDX-License-Identifier: Apache-2.0
"""The tables that pages show, made from the code, with the text around them where a page is no more than its table. Used by docs/generate.py.

The layers of the packages are those of the import contract in pyproject.toml, which `make lint` holds the code to; what a
package is for is the first paragraph of its docstring.
"""

from __future__ import annotations

import ast
import re
import textwrap
from html import escape
from pathlib import Path

import tomllib
import yaml

from dnsteer.events.event import KINDS
from dnsteer.metrics.families import FAMILIES
from dnsteer.metrics.family import ROWS
from dnsteer.render.templates import leads_to
from dnsteer.switch.settings import SETTINGS
from dnsteer.tables.order import TABLES
from dnsteer.tables.table import Table

_ROOT = Path(__file__).resolve().parents[1]
_CODE = _ROOT / "generator" / "dnsteer"
_SEEN = _ROOT / "tests" / "servers" / "expected.yaml"
_EVENTS = re.compile(r"(<!-- events -->\n).*?(<!-- end of events -->)", re.DOTALL)
_PACKAGES = re.compile(r"(<!-- packages -->\n).*?(<!-- end of packages -->)", re.DOTALL)
_PIPELINE = re.compile(r"(<!-- tables -->\n).*?(<!-- end of tables -->)", re.DOTALL)
_SERVERS = re.compile(r"(<!-- seen: ([a-z]+), ([a-z ]+) -->\n).*?(<!-- end of seen -->)", re.DOTALL)
_REASONS = re.compile(r"(<!-- reasons -->\n).*?(<!-- end of reasons -->)", re.DOTALL)
_LONG_REASON = 40
"""Characters of a reason from which on its beginning and a letter stand for it."""
_WIDTH, _HEIGHT, _LINE, _GAP, _MARGIN, _TEXT = 1040, 46, 15, 12, 16, 6.4
_FILL = {"cli": "#dbe7f5", "spec": "#e4f0dc"}

METRICS_HEAD = """# Metrics

`dnsteer agent --metrics 127.0.0.1:9853` serves `/metrics` for Prometheus, in its classic text format and as OpenMetrics. The systemd unit does so by default;
`DNSTEER_METRICS=ADDRESS:PORT` in `/etc/default/dnsteer` changes the address, and `DNSTEER_METRICS=` turns it off. It needs `pip install 'dnsteer[agent]'`; where packages are missing the agent says so, and works without metrics.

By default there is no authentication and no TLS. On an address other than a loopback one, whoever reaches it then reads names, addresses and the notes of maintenance: give it the TLS and
tokens of the console (`--console-tls-cert`, `--console-tls-key`, `--console-tokens`: [console.md](console.md), Security; a token of the role `read` suffices), fence it (a firewall, a network for management), or put a proxy in front. If the address is in use, the agent logs it and tries again every 5 s; health checks go on.

```yaml
scrape_configs:
  - job_name: dnsteer              # the alert for an absent agent knows this name
    scrape_interval: 15s           # the default of Prometheus is 1m
    static_configs: [{targets: ["127.0.0.1:9853"]}]
rule_files: [dnsteer.rules.yml]    # ovs/monitoring/; to several switches add their targets
```

Where the agent has TLS and tokens ([console](console.md#security)), which are then for `/metrics` at any address, the job needs a token of the role `read`:

```yaml
    scheme: https
    authorization: {credentials_file: /etc/prometheus/dnsteer-token}
    tls_config: {ca_file: /etc/prometheus/ca.pem, server_name: dpu-1.example.net}    # a name in the certificate
```

- `ovs/monitoring/dnsteer.rules.yml` has recording and alert rules; the summary of each alert begins with the switch, its description names the command to look further, and `runbook_url` leads to its
  section of [alerts.md](alerts.md). `promtool` tries all of them in `make test`, and
  `make test-alerts` has each fire by the fault that it is for, at a real Prometheus beside a real agent. Both need Debian's package prometheus.
- `ovs/monitoring/grafana-dashboard.json` is a dashboard to import into Grafana (10.1 or later). It begins with whether the switches serve; then comes a panel for each metric of the list below that has one.
  All is by switch and bridge. Changes of the record are annotations, and the table of consoles and the link at the top lead to the [console](console.md). Tests read it by the model of dashboards that
  Grafana publishes, and ask Prometheus what its panels say; it was not looked at in a running Grafana. Where `scrape_interval` is longer than 15 s, set it in Grafana's data source too (*Scrape interval*), or its rates are empty.

## What a reading does

Counters are read when somebody scrapes: from the tables vip and forward, the flows that drop, and the ports. A reading that is less than a second old is shared, so ten
scrapers cost as much as one; that of a large spec is shared for 20 times as long as it took, at most 10 s. The table of slots, by far the largest, is never read, and no lock is taken. Slots and states are computed from the record, which the agent reads
each second. When the switch is away, counters stay as they were and `dnsteer_switch_up` is 0. An agent that stands by for another one tells of itself alone.

With `flavor: ovs-doca`, where the switch has `ovs-appctl metrics/show`, its own metrics follow under their own names (counters end in `_total`), with the label `switch` and not `bridge`: they are of all of ovs-vswitchd, and are
documented by NVIDIA (docs.nvidia.com, OVS Metrics). They are passed on up to 5,000 series. The command's format is Prometheus's, as NVIDIA's own tools read it; its names were not seen here.

The counters of the datapath's threads are understood as Open vSwitch prints them up to 3.7 and as 4.0 does (`dpif-netdev/pmd-perf-show`; its form is taken from its source, that version
was not run). 4.0 says idle and processing cycles only as rounded shares since the start, which make no counter: `dnsteer_datapath_worker_cycles_total` is absent there. Where a version prints another form, the
metrics of threads and recirculations are absent, and the agent says so: a trouble in its log, in `status`, `top` and the console.

What a reading costs, measured among 122,648 flows (1,000 VIPs in 100 pools of 16 backends) on two shared cores: 0.10 s of CPU time of the agent, with the page, 0.09 s of ovs-ofctl and
0.05 s of the switch. With a scrape each 15 s that is 0.8 % of two cores. Of queries at the most that the switch takes, 13,400 a second there, 0.004 s were missing around each of 37 scrapes, with a
standard error of 0.014 s: 0.03 % of 15 s, ± 0.09 %. None of 6.2 million was lost. `make bench-metrics` measures both.

Counters of OpenFlow begin again at 0 when a flow is replaced or the switch restarts; those here go on. What passed between the last reading and that moment is not
counted. VIPs that the extension serves are counted where the bridge hands them to it, and their backends by the extension itself.

Packets of UDP services are queries: `sum by (switch, bridge) (rate(dnsteer_service_packets_total{service=~".*/udp"}[5m]))` is queries a second.

In OpenMetrics the histograms of checks, decisions, effects and looks have exemplars: the id of the last [decision](agent.md#7-decisions) whose observation fell into each bucket. Grafana
links them to the log; Prometheus keeps them with `--enable-feature=exemplar-storage`. That was not tried here.

## Many switches

Every series has the label `switch`: the name that `switch.name` of the spec has given the switch (`dnsteer status` shows it), else Open vSwitch's `external_ids:system-id`, else the name of the agent's machine. So it is
never empty, and two switches with bridges of one name stay apart as long as their names differ. Give each switch a `switch.name` of its own: it stays the same whatever Open vSwitch and the machine are called. Two with the same name
(a copied spec, or a cloned machine with the same system-id) are told by DnsteerSwitchNameNotUnique; until that is put right they are one in the dashboard, where the other one hides one that dies with its agent (DnsteerAgentDown tells of it,
by its address). Until the agent has read the record for the first time, `switch` is the machine's name and `bridge` is empty, also after a restart while the database is down. Queries of your own belong `by (switch, bridge)`.

A switch that dies with its agent has no series any more. Alerts name it all the same, by the recorded series `agent:dnsteer_switch:info`, which keeps the names of each target while it does not answer, and while its agent has
not read the record; the dashboard shows it as silent for as long as it was seen within the time shown.

### Pairs

Switches that [stand in for each other](standby.md) are known as a pair by the label `pair` of `dnsteer_pair_active`: `switch.pair` of their specs, which has the same value on both. Give every pair one: where it is left out it is the
lowest address of their VIPs, which changes with the VIPs, on one switch before the other, and which two sites with the same VIPs (anycast) share though each has a pair of its own. One Prometheus has to scrape both switches of
a pair: of a standby that it sees alone DnsteerPairIncomplete says so. `agent:dnsteer_pair:info` keeps which switches a pair has while one of them does not answer. A switch that does not answer its agent
does not count as active, whatever its record says. A switch without a role is of no pair.

### Coming from a version without the label `switch`

- Every series is a new one to Prometheus: graphs of before and after meet only in queries that sum over `switch`. Counters go on, but `rate` and `increase` begin anew at the upgrade of each agent, for at most the length of
  their window; alerts that fire are over, and fire again as others after their `for`.
- Load the new rules and the new dashboard before or after the agents: both work with series of an old agent, whose `switch` is empty.
- Queries and rules of your own: `by (bridge)` becomes `by (switch, bridge)`, and `on (bridge)` becomes `on (switch, bridge)`. Without that they take bridges of one name for one: `max by (bridge) (dnsteer_switch_up)` is 1
  while one of two switches is dead. Recorded series (`vip:dnsteer_service_packets:rate5m` and the others) have the label too. Silences and routes by `bridge` go on matching, now of all switches.
- Where your targets have a label `switch` of their own in `static_configs` or by relabelling, Prometheus keeps yours and calls that of the agent `exported_switch`: drop yours, or rename it.
- `process_...` and the metrics of OVS-DOCA have it too; a label `switch` of the latter's own is `exported_switch`.

## The metrics

All have the labels `switch` and `bridge` besides those that are given. *Series* is how many there can be. Besides these there are the usual `process_...` of the agent's process, with `switch` alone.
"""


def metrics_page() -> str:
    """The reference of the metrics."""
    out = [METRICS_HEAD]
    for row in ROWS:
        out.append(
            f"### {row}\n\n| metric | type | labels | series | there when | meaning |\n|---|---|---|---|---|---|"
        )
        for f in FAMILIES:
            if f.row == row:
                labels = ", ".join(f"`{label}`" for label in f.labels)
                out.append(f"| `{f.name}` | {f.type} | {labels} | {f.bound} | {f.when} | {f.help} |")
        out.append("")
    return "\n".join(out)


SETTINGS_HEAD = """# Settings of the switch

Which settings of Open vSwitch, besides flows and groups, change what becomes of a packet, and what `dnsteer verify` and `dnsteer status` do
about each. The list is `SETTINGS` in `generator/dnsteer/switch/settings.py`: a setting more is one entry there.

| level | `verify`, exit code | `plan` and `apply` | why |
|---|---|---|---|
| set | difference, 2 | set it to what is wanted | it is dnsteer's: with another value the bridge does not do what its flows say |
| named | difference, 2 | warn of it, and change nothing | traffic stops, or most of it does, but it is another's to put right: whoever took a port down may work on it |
| warned | warning, 0 | warn of it, and change nothing | somebody may want it, such as a limit against floods, and dnsteer did not set it |

Of some settings it depends on the value: policing at 1 Gbit/s is a choice, policing at 1 kbit/s stops DNS.

Each message has what was found and the command that changes it. In `status` the first two are `drift:` and make the exit code 2, warnings
do not; with `--json` they are `drift` and `warnings`. `--ignore-foreign` says nothing about the ports of others.

`apply` sets what is dnsteer's after the tables are the new ones, and before the record says so: a port that was kept from forwarding meets no
old flow, and an apply that is refused leaves all of it as it was. `restore` sets it too.
"""

SETTINGS_TAIL = """
## Also checked, with values from the spec

Set: the bridge's `datapath_type`, `fail_mode` (secure), OpenFlow 1.5 among its `protocols` and the names of its tables; `type` and `options` of
its ports; the marks in `external_ids`. Named: a port that is missing, not open, or whose network device is gone, and one that is part of a bond.

## What lasts

OVSDB keeps settings over a restart of ovs-vswitchd. What OpenFlow alone has (ports' bits, fragments) is back at Open vSwitch's defaults then,
which are what is wanted.

## Not checked

These change nothing for flows like dnsteer's, which never use the action NORMAL (tried with packets where it says so): `mcast_snooping_enable`,
`other_config:forward-bpdu`, `protected`, BFD and LLDP of a port (tried); CFM, MAC table, `flood_vlans`, the OpenFlow bits `no-flood` and
`no-packet-in`, and meters that no flow names. Bits of the bridge's own port do not matter: no flow uses it. What is in hardware is
`dnsteer verify --offload`'s. Performance alone: `emc-insert-inv-prob`, `smc-enable`, `pmd-cpu-mask`, `n-handler-threads`, `n-revalidator-threads`,
`max-revalidator`, `min-revalidate-pps`. Open vSwitch does not tell whether `ovs-appctl revalidator/pause` is in force; whether megaflows are disabled shows in
the datapath flows of UDP alone, so it takes traffic, a switch on this machine, and at most 20,000 datapath flows (`verify` and `status` look, `plan` and `apply` do not).
"""


def settings_page() -> str:
    """The settings of a switch beside flows and groups, and what dnsteer does about each."""
    numbers = {"needed": "so many", "limit": "N", "mtu": "1500, and more with tunnels"}
    out = [
        SETTINGS_HEAD,
        "## The settings\n\n| setting | of | wanted | level | with another value | changed by |\n|---|---|---|---|---|---|",
    ]
    for s in SETTINGS:
        command = s.command("BRIDGE", "NAME", {**numbers, "mtu": "N"})
        level = (
            s.level.value if s.harmful is None or not s.harmful.where else f"{s.level.value}; named: {s.harmful.where}"
        )
        level = "named" if s.harmful is not None and not s.harmful.where else level
        by = f"`{command}`" if command.startswith(("ovs-", "dnsteer")) and "," not in command else command
        out.append(
            f"| `{s.name}` | {s.place.value} | {s.default or 'not set'} | {level} | {s.does.format(**numbers)} | {by} |"
        )
    return "\n".join(out) + "\n" + SETTINGS_TAIL


def agent_page(text: str) -> str:
    """docs/agent.md with its table made anew."""
    rows = [f"| `{kind.name}` | {kind.means} | {', '.join(f'`{field}`' for field in kind.fields)} |" for kind in KINDS]
    made = "\n".join(["| event | meaning | fields |", "|---|---|---|", *rows])
    return _EVENTS.sub(lambda m: f"{m[1]}\n{made}\n\n{m[2]}", text)


def servers_page(text: str) -> str:
    """docs/servers.md with its tables made anew."""
    seen = yaml.safe_load(_SEEN.read_text(encoding="utf-8"))
    all_ = [
        why
        for servers in seen.values()
        for states in servers.values()
        for row in states.values()
        for why in row.values()
    ]
    letters = {
        why: "abcdefghijklmnopqrstuvwxyz"[n]
        for n, why in enumerate(dict.fromkeys(w for w in all_ if ": " in w and len(w) > _LONG_REASON))
    }
    legend = "\n".join(f"- {letter}: `{why}`" for why, letter in letters.items())
    text = _REASONS.sub(lambda m: f"{m[1]}\n{legend}\n\n{m[2]}", text)
    return _SERVERS.sub(lambda m: f"{m[1]}\n{_server_table(seen[m[2]], m[3], letters)}\n\n{m[4]}", text)


def _server_table(servers: dict[str, dict[str, dict[str, str]]], check: str, letters: dict[str, str]) -> str:
    """A row for each state, a column for each server that the check is for."""
    asked = {name: states for name, states in servers.items() if check in states["up"]}
    lines = [f"| | {' | '.join(asked)} |", "|---" * (len(asked) + 1) + "|"]
    for state in next(iter(asked.values())):
        cells = (_server_cell(states[state][check], letters) for states in asked.values())
        lines.append(f"| {state} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _server_cell(why: str, letters: dict[str, str]) -> str:
    return f"{why.partition(':')[0].removeprefix('answered ')} (**{letters[why]}**)" if why in letters else why


def layers() -> list[list[str]]:
    """The packages, from the top layer down; those of one layer do not import each other."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix("dnsteer.") for name in layer.split("|")] for layer in found]


def purpose(package: str) -> str:
    """What a package is for."""
    return _first_paragraph(_CODE / package / "__init__.py")


def _first_paragraph(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def modules_page() -> str:
    """docs/modules.md: what each module is for."""
    out = [
        "# Modules\n\nThe modules of `generator/dnsteer`, by the first paragraph of each. [architecture.md](architecture.md) has the packages and the ways through them."
    ]
    for package in (package for layer in layers() for package in layer):
        out.append(f"## {package}\n\n{purpose(package)}\n\n| module | what it is for |\n|---|---|")
        for file in sorted((_CODE / package).rglob("*.py"), key=lambda file: (len(file.parts), file)):
            name = str(file.relative_to(_CODE)).removesuffix("__init__.py")
            if name != f"{package}/":
                out[-1] += f"\n| `{name}` | {_first_paragraph(file).replace('|', chr(92) + '|')} |"
    return "\n\n".join(out) + "\n"


def table_groups() -> list[list[Table]]:
    """The tables of the pipeline; those that share a template together."""
    groups: dict[str, list[Table]] = {}
    for table in TABLES:
        groups.setdefault(table.template_file, []).append(table)
    return list(groups.values())


def _number(group: list[Table]) -> str:
    return str(group[0].number) if len(group) == 1 else f"{group[0].number} to {group[-1].number}"


def _names(group: list[Table]) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].name} to {group[-1].name}"


def table_rows() -> list[str]:
    """The tables of the pipeline as rows of a page."""
    return [
        f"| {_number(group)} | {_names(group)} | {group[0].matches} | {group[0].does} | "
        f"{', '.join(leads_to(group[-1].name)) or 'out'} |"
        for group in table_groups()
    ]


def architecture_page(text: str) -> str:
    """docs/architecture.md with its tables made anew."""
    rows = [f"| `{package}/` | {purpose(package)} |" for layer in layers() for package in layer]
    made = "\n".join(["| package | what it is for |", "|---|---|", *rows])
    text = _PACKAGES.sub(lambda m: f"{m[1]}\n{made}\n\n{m[2]}", text)
    pipeline = "\n".join(f"{_number(group):>8} {_names(group):<20} {group[0].does}" for group in table_groups())
    return _PIPELINE.sub(lambda m: f"{m[1]}\n```\n{pipeline}\n```\n\n{m[2]}", text)


def architecture_picture() -> str:
    """The packages in their layers as SVG: a package imports packages below it alone."""
    boxes, y = [], _MARGIN + 20.0
    for layer in layers():
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(layer) - 1)) / len(layer)
        texts = [textwrap.wrap(purpose(package).replace("`", ""), int((width - 20) / _TEXT)) for package in layer]
        tall = _HEIGHT + _LINE * (max(map(len, texts)) - 1)
        for i, (package, text) in enumerate(zip(layer, texts, strict=True)):
            x = _MARGIN + i * (width + _GAP)
            fill = _FILL.get(package, "#f4f1ea")
            boxes.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{tall}" rx="4" fill="{fill}" stroke="#555"/>\n'
                f'<text x="{x + 10:.0f}" y="{y + 18:.0f}" font-weight="bold">{escape(package)}/</text>'
            )
            boxes += [
                f'<text x="{x + 10:.0f}" y="{y + 36 + _LINE * n:.0f}" font-size="12">{escape(line)}</text>'
                for n, line in enumerate(text)
            ]
        y += tall + _GAP
    height = y + _MARGIN - _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}" '
        'font-family="sans-serif" font-size="14" fill="#222">\n'
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#fff"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN + 6}" font-size="12">generator/dnsteer/: a package imports packages below it, never above or '
        "beside it</text>\n"
    )
    return head + "\n".join(boxes) + "\n</svg>\n"
