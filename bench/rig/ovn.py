# SPDX-License-Identifier: Apache-2.0
"""OVN's load balancer on the userspace datapath, all of it (databases, northd, controller) on the balancer."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.hosts import Process, SwitchHost, decoded, inside, wait_for
from bench.rig.network import (
    BALANCER_MAC,
    CLIENT_MAC,
    FAMILIES,
    GATEWAY_MAC,
    PORTS,
    UPLINK,
    server_mac,
)
from bench.rig.peers import BALANCER, Peer
from dnsteer.lab.command import run

_SCHEMAS = Path("/usr/share/ovn")
_ENCAPSULATION = "127.0.0.1"
_NETWORKS = {4: ("203.0.113.1/24", "10.53.0.1/24"), 6: ("2001:db8:ffff::1/64", "2001:db8:10::1/64")}
"""The router's addresses to the client and to servers."""


class Ovn(Peer):
    """OVN's load balancer on a gateway router, Open vSwitch's userspace datapath: DNAT with connection tracking."""

    programs: tuple[str, ...] = ("ovn-northd", "ovn-controller", "ovn-nbctl", "ovs-vswitchd", "ovsdb-server")
    _host: SwitchHost | None = None
    _processes: list[Process]

    def prepare(self) -> None:
        """Nothing: the router comes with its load balancer."""

    def load(self, denied: Sequence[str]) -> None:
        """Start its databases, its daemons and a switch, and set up the router. Raises ValueError for a list."""
        if denied:
            raise ValueError("OVN is measured without lists")
        self._processes = []
        self._host = host = SwitchHost(BALANCER, Path(tempfile.mkdtemp(dir=self.folder)))
        host.start_openvswitch()
        for name in ("nb", "sb"):
            file, schema = f"{host.folder}/{name}.db", f"{_SCHEMAS}/ovn-{name}.ovsschema"
            run(["ovsdb-tool", "create", file, schema])
            listen = [f"--remote=punix:{self._socket(name)}", f"--unixctl={host.folder}/{name}.ctl", "-vconsole:off"]
            self._start("ovsdb-server", file, *listen)
            wait_for(Path(self._socket(name)))
        self._nbctl("init")
        self._start("ovn-northd", *self._both(), f"--unixctl={host.folder}/northd.ctl", "-vconsole:off")
        settings = {
            "system-id": "hv",
            "ovn-remote": f"unix:{self._socket('sb')}",
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": _ENCAPSULATION,
            "ovn-bridge-datapath-type": "netdev",
        }
        self._vsctl("set", "Open_vSwitch", ".", *(f'external_ids:{key}="{value}"' for key, value in settings.items()))
        self._start("ovn-controller", host.db, "-vconsole:off")
        self._nbctl(*self._router())
        for device in (UPLINK, *PORTS):
            self._vsctl("--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
            self._vsctl(
                "add-port", "br-int", device, "--", "set", "Interface", device, f"external_ids:iface-id={device}"
            )
        self._nbctl("--wait=hv", "--timeout=30", "sync")

    def stop(self) -> None:
        """End all of it, and remove its devices, which outlive it."""
        if self._host is not None:
            for process in self._processes:
                process.kill(signal.SIGTERM)
            self._host.stop()
            self._host = None
        for device in (found["ifname"] for found in decoded(inside(BALANCER, "ip", "-j", "link"))):
            if device not in ("lo", UPLINK, *PORTS):
                inside(BALANCER, "ip", "link", "delete", device)

    def deny(self, prefix: str) -> None:
        """Not measured. Raises ValueError."""
        raise ValueError("OVN is measured without lists")

    def forget(self) -> None:
        """Remove connections and megaflows."""
        self._appctl("dpctl/flush-conntrack")
        self._appctl("revalidator/purge")

    def state(self) -> dict[str, int]:
        """Megaflows and connections."""
        flows = re.search(r"flows *: \(current (\d+)\)", self._appctl("upcall/show"))
        tracked = re.search(r"Current Connections: (\d+)", self._appctl("dpctl/ct-get-nconns"))
        return {
            "megaflows": int(flows[1]) if flows else 0,
            "connections": int(tracked[1]) if tracked else int(self._appctl("dpctl/ct-get-nconns")),
        }

    def pid(self) -> int | None:
        """That of ovs-vswitchd."""
        running = self._host.vswitchd.running if self._host is not None else None
        return running.pid if running is not None else None

    def version(self) -> str:
        """That of OVN."""
        return run(["ovn-nbctl", "--version"]).splitlines()[0].replace("ovn-nbctl", "OVN")

    @staticmethod
    def _router() -> list[str]:
        """Commands that make a gateway router between the client's switch and the servers', with the load balancers."""
        made = [["lr-add", "R", "--", "set", "Logical_Router", "R", "options:chassis=hv"]]
        outer, inner = zip(*_NETWORKS.values(), strict=True)
        for switch, mac, networks in (("clients", BALANCER_MAC, outer), ("servers", GATEWAY_MAC, inner)):
            made += [["ls-add", switch], ["lrp-add", "R", f"r-{switch}", mac, *networks]]
            made += [["lsp-add", switch, f"{switch}-r"], ["lsp-set-type", f"{switch}-r", "router"]]
            made += [["lsp-set-addresses", f"{switch}-r", "router"]]
            made += [["lsp-set-options", f"{switch}-r", f"router-port=r-{switch}"]]
        hosts = [("clients", UPLINK, CLIENT_MAC, [f.client for f in FAMILIES.values()])]
        for n, port in enumerate(PORTS):
            hosts.append(("servers", port, server_mac(n + 1), [f.servers[n] for f in FAMILIES.values()]))
        for switch, port, mac, addresses in hosts:
            made += [["lsp-add", switch, port], ["lsp-set-addresses", port, " ".join((mac, *addresses))]]
        for f in FAMILIES.values():
            servers = ",".join(f"[{s}]:53" if f.version == 6 else f"{s}:53" for s in f.servers)
            for protocol in ("udp", "tcp"):
                name = f"{protocol}{f.version}"
                made += [["lb-add", name, f.to(53), servers, protocol], ["lr-lb-add", "R", name]]
        return [word for command in made for word in ("--", *command)][1:]

    def _start(self, *argv: str) -> None:
        assert self._host is not None
        process = self._host.process(
            *argv, env={"OVS_RUNDIR": str(self._host.folder), "OVN_RUNDIR": str(self._host.folder)}
        )
        process.start()
        self._processes.append(process)

    def _socket(self, name: str) -> str:
        assert self._host is not None
        return f"{self._host.folder}/{name}.sock"

    def _both(self) -> list[str]:
        return [f"--ovn{name}-db=unix:{self._socket(name)}" for name in ("nb", "sb")]

    def _nbctl(self, *words: str) -> None:
        inside(BALANCER, "ovn-nbctl", f"--db=unix:{self._socket('nb')}", *words)

    def _vsctl(self, *words: str) -> None:
        assert self._host is not None
        inside(BALANCER, "ovs-vsctl", f"--db={self._host.db}", "--timeout=20", *words)

    def _appctl(self, *words: str) -> str:
        assert self._host is not None
        (control,) = self._host.folder.glob("ovs-vswitchd.*.ctl")
        return inside(BALANCER, "ovs-appctl", "-t", str(control), *words)
