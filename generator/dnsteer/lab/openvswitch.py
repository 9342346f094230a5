"""The lab's own Open vSwitch: a private database and switch daemon in the switch's namespace, without a bridge."""

from __future__ import annotations

import re
from collections.abc import Callable

from dnsteer.lab import names, processes
from dnsteer.lab.command import netns_exec, run

PIDFILES = {"ovsdb-server": names.RUN_DIR / "ovsdb-server.pid", "ovs-vswitchd": names.RUN_DIR / "ovs-vswitchd.pid"}
_DATABASE = names.RUN_DIR / "conf.db"
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


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
