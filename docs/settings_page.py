"""docs/settings.md: what of a switch is no flow but stops or changes traffic. Used by docs/generate.py."""

from __future__ import annotations

from dnsteer.switch.settings import SETTINGS

HEAD = """# Settings of the switch

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

TAIL = """
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


def page() -> str:
    """The settings of a switch beside flows and groups, and what dnsteer does about each."""
    numbers = {"needed": "so many", "limit": "N", "mtu": "1500, and more with tunnels"}
    out = [
        HEAD,
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
    return "\n".join(out) + "\n" + TAIL
