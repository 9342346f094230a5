# SPDX-License-Identifier: Apache-2.0
"""A balancer in XDP by Katran's scheme, which is ours and the smallest that does it (`balancer.bpf.c`)."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path

from bench.hosts import decoded, inside
from bench.rig.network import BALANCER_MAC, CLIENT_MAC, FAMILIES, PORTS, SERVERS, UPLINK, server_mac
from bench.rig.peers import BALANCER, Peer
from bench.slots import maglev
from dnsteer.lab.command import run

SOURCE = Path(__file__).with_name("balancer.bpf.c")
_SLOTS = 2039
"""A prime number, 1 % of which is many more than there are servers."""


class Xdp(Peer):
    """XDP in the drivers of veth, by Katran's scheme: Maglev, MAC addresses rewritten, without a connection table."""

    programs: tuple[str, ...] = ("clang",)
    _devices: Sequence[tuple[str, str]] = ()

    def prepare(self) -> None:
        """Compile it for the rig's devices."""
        (self.folder / "rig.h").write_text(self._header())
        include = f"/usr/include/{platform.machine()}-linux-gnu"
        argv = [
            "clang",
            "-O2",
            "-g",
            "-target",
            "bpf",
            f"-I{include}",
            f"-I{self.folder}",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]
        run([*argv, "-c", str(SOURCE), "-o", str(self._object)], timeout=60)

    def load(self, denied: Sequence[str]) -> None:
        """Attach it. Raises ValueError for a list."""
        if denied:
            raise ValueError("XDP is measured without lists")
        ends = [("client", "eth0"), *((f"server{n}", "eth0") for n in range(1, SERVERS + 1))]
        wanted = [(BALANCER, UPLINK, "client_side"), *((BALANCER, port, "server_side") for port in PORTS)]
        wanted += [(where, device, "plain") for where, device in ends]
        for where, device, program in wanted:
            self._devices = (*self._devices, (where, device))
            inside(where, "ip", "link", "set", "dev", device, "xdpdrv", "obj", str(self._object), "program", program)

    def stop(self) -> None:
        """Detach it."""
        for where, device in self._devices:
            inside(where, "ip", "link", "set", "dev", device, "xdpdrv", "off")
        self._devices = ()

    def deny(self, prefix: str) -> None:
        """Not measured. Raises ValueError."""
        raise ValueError("XDP is measured without lists")

    def forget(self) -> None:
        """Nothing: it remembers nothing."""

    def version(self) -> str:
        """That of the kernel."""
        return f"Linux {platform.release()}"

    @property
    def _object(self) -> Path:
        return self.folder / "balancer.o"

    @staticmethod
    def _header() -> str:
        """Addresses and devices of the rig, and Maglev's table, as C."""
        numbers = {found["ifname"]: found["ifindex"] for found in decoded(inside(BALANCER, "ip", "-j", "link"))}
        vips = {version: ip_address(f.vip).packed for version, f in FAMILIES.items()}
        four, *six = (vips[4], *(vips[6][n : n + 4] for n in range(0, 16, 4)))
        table = maglev({str(n): 1 for n in range(SERVERS)}, _SLOTS)
        macs = _braces(_mac(server_mac(n)) for n in range(1, SERVERS + 1))
        lines = {
            "VIP4": _big_endian(four),
            "VIP6": _braces(map(_big_endian, six)),
            "OWN_MAC": _mac(BALANCER_MAC),
            "CLIENT_MAC": _mac(CLIENT_MAC),
            "UPLINK": numbers[UPLINK],
            "SERVER_MACS": macs,
            "PORTS": _braces(numbers[port] for port in PORTS),
            "TABLE_SIZE": len(table),
            "TABLE": _braces(table),
        }
        return "".join(f"#define {name} {value}\n" for name, value in lines.items())


def _braces(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _mac(text: str) -> str:
    return _braces(f"0x{byte}" for byte in text.split(":"))


def _big_endian(word: bytes) -> str:
    return f"bpf_htonl(0x{word.hex()})"
