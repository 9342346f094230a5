# SPDX-License-Identifier: Apache-2.0
"""The lab's own Open vSwitch: a private database and switch daemon in the switch's namespace, without a bridge.

And the flows of the direct path, by which queries to one backend bypass the load balancer: frames for one of the
lab's MAC addresses go to the backend, with the hops and rewrites of a query to a VIP. A VIP is compared with this path,
not with a cable.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from dnsteer.lab import names, processes
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.topology import Client, Topology

PIDFILES = {"ovsdb-server": names.RUN_DIR / "ovsdb-server.pid", "ovs-vswitchd": names.RUN_DIR / "ovs-vswitchd.pid"}
_DATABASE = names.RUN_DIR / "conf.db"
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
DIRECT_COOKIE = 0x1AB << 52
"""Cookie of the flows of the direct path; `dnsteer` touches only flows with its own."""
_DIRECT_MASK = 0xFFF << 52
_DIRECT_PRIORITY = 65000


def start(progress: Callable[[str], None]) -> None:
    """Start both daemons. `dnsteer apply` creates the bridge afterwards."""
    progress("starting a private Open vSwitch (userspace datapath)")
    _run("ovsdb-tool", "create", str(_DATABASE), _SCHEMA)
    start_database()
    found = re.search(r"\d+\.\d+\.\d+\S*", run(["ovs-vswitchd", "--version"]))
    # What the distribution's start script records, because programs read the version there.
    version = [f"ovs_version={found.group()}"] if found else []
    columns = ["external_ids:hostname=dnsteer-lab", *version]
    vsctl = ["ovs-vsctl", f"--db={names.db_target()}", "--no-wait"]
    _run(*vsctl, "init", "--", "set", "Open_vSwitch", ".", *columns)
    start_switch()


def start_database() -> None:
    """Start ovsdb-server, initially or after a crash."""
    _run(
        "ovsdb-server",
        str(_DATABASE),
        f"--remote=punix:{names.DB_SOCKET}",
        f"--unixctl={names.RUN_DIR / 'ovsdb-server.ctl'}",
        *_daemon("ovsdb-server"),
    )


def start_switch() -> None:
    """Start ovs-vswitchd, initially or after a crash."""
    _run("ovs-vswitchd", names.db_target(), "--disable-system", *_daemon("ovs-vswitchd"))


def crash(name: str) -> None:
    """Kill a daemon of PIDFILES as a crash would, and wait until it is gone."""
    processes.kill([int(PIDFILES[name].read_text(encoding="ascii"))])


def appctl(*command: str) -> str:
    """What `ovs-appctl` of the lab's switch daemon answers to *command*."""
    pid = PIDFILES["ovs-vswitchd"].read_text(encoding="ascii").strip()
    return run(["ovs-appctl", "-t", str(names.RUN_DIR / f"ovs-vswitchd.{pid}.ctl"), *command])


def ofctl(bridge: str, command: str, *arguments: str, stdin: str | None = None) -> str:
    """Run an `ovs-ofctl` command on *bridge*, in any OpenFlow version that the bridge has enabled."""
    versions = "OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15"
    return run(["ovs-ofctl", "-O", versions, command, f"unix:{names.RUN_DIR / bridge}.mgmt", *arguments], stdin=stdin)


def _daemon(name: str) -> list[str]:
    log = names.RUN_DIR / f"{name}.log"
    return [f"--pidfile={PIDFILES[name]}", f"--log-file={log}", "--detach", "--no-chdir", "-vconsole:off"]


def _run(*argv: str) -> None:
    # OVS_RUNDIR: the switch daemon puts the bridges' sockets there, not where the machine's own Open vSwitch has them.
    run(netns_exec(names.SWITCH_NAMESPACE, ["env", f"OVS_RUNDIR={names.RUN_DIR}", *argv]))


def direct_flows(topology: Topology, server: str, client: Client) -> list[str]:
    """The flows of the direct path between *client* and *server*, in both directions where the answers pass the switch."""
    host, target = topology.find(server)
    by = client.uplink if client.uplink in host.queries_by else host.queries_by[0]
    lines = [_direct_flow(client.uplink, target.lab_mac, target.lab_mac, host.mac, by)]
    if host.passes:
        lines.append(_direct_flow(by, client.return_mac, client.return_mac, client.mac, client.uplink))
    return lines


@contextlib.contextmanager
def direct_path(topology: Topology, server: str, client: Client) -> Iterator[None]:
    """Add the flows of the direct path from *client* to *server*, and remove them when the block ends."""
    bridge = topology.spec.switch.bridge
    remove_direct_flows(bridge)
    try:
        ofctl(bridge, "add-flows", "-", stdin="\n".join(direct_flows(topology, server, client)) + "\n")
        appctl("revalidator/wait")  # a datapath flow of the path before may still drop what comes
        yield
    finally:
        remove_direct_flows(bridge)


def remove_direct_flows(bridge: str) -> None:
    """Remove the flows of the direct path, also those of a demo that was killed."""
    ofctl(bridge, "del-flows", f"cookie={DIRECT_COOKIE:#x}/{_DIRECT_MASK:#x}")


def _direct_flow(in_port: str, mac: str, source: str, destination: str, out_port: str) -> str:
    # The source MAC is rewritten as dnsteer does: the client's own would move in the fabric's table.
    output = "in_port" if in_port == out_port else f'output:"{out_port}"'
    rewrite = f"set_field:{source}->eth_src,set_field:{destination}->eth_dst"
    match = f'cookie={DIRECT_COOKIE:#x},table=0,priority={_DIRECT_PRIORITY},in_port="{in_port}",dl_dst={mac}'
    return f"{match},actions={rewrite},{output}"
