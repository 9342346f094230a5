"""docs/metrics.md, from the definitions of the metrics. Used by docs/generate.py."""

from __future__ import annotations

from dnsteer.metrics.families import FAMILIES
from dnsteer.metrics.family import ROWS

HEAD = """# Metrics

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
    out = [HEAD]
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
