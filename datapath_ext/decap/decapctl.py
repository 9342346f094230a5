#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may send tunnel packets to the decapsulation program of a device, and what it counted. See README.md.

Only the standard library and `ip`: name servers need neither bpftool nor Python packages.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import ipaddress
import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

OUTCOMES = ("passed", "4in4", "6in4", "4in6", "6in6", "malformed", "unsupported", "no_tunnel", "no_vip")
"""The order of `enum outcome` in decap.bpf.c."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_CALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}  # number of bpf(2)
_LOOKUP, _UPDATE, _DELETE, _NEXT, _PROGRAM_BY_ID, _MAP_BY_ID, _INFO = 1, 2, 3, 4, 13, 14, 15
_TUNNEL = struct.Struct("=II16s16s")  # struct tunnel
_VIP = struct.Struct("=I16s")  # struct address
_FIXED = 8 * (4 + 16)  # bits of a tunnel's key before the remote prefix


class ControlError(Exception):
    """What was asked cannot be done; the message says why."""


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Call bpf(2): its result, and the attributes as the kernel left them. Raises OSError."""
    number = _CALL.get(platform.machine())
    if number is None:
        raise ControlError(f"the number of bpf(2) on {platform.machine()} is not known here: use bpftool")
    buffer = ctypes.create_string_buffer(attributes.ljust(120, b"\0"), 120)
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(120))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done, buffer.raw


def information(fd: int, size: int, pointer: tuple[int, int] | None = None) -> bytes:
    """The kernel's description of a program or a map; *pointer* is a field's offset and the address it takes."""
    buffer = ctypes.create_string_buffer(size)
    if pointer:
        struct.pack_into("=Q", buffer, *pointer)
        struct.pack_into("=I", buffer, pointer[0] - 4, 64)
    bpf(_INFO, struct.pack("=IIQ", fd, size, ctypes.addressof(buffer)))
    return buffer.raw


class Map:
    """A BPF map by file descriptor."""

    def __init__(self, fd: int) -> None:
        info = information(fd, 40)
        self.fd = fd
        self.key_size, self.value_size = struct.unpack_from("=II", info, 8)
        self.name = info[24:40].partition(b"\0")[0].decode()

    def _call(self, command: int, key: bytes | None, second: ctypes.Array[ctypes.c_char] | None = None) -> None:
        first = ctypes.create_string_buffer(key, self.key_size) if key is not None else None
        addresses = [ctypes.addressof(b) if b is not None else 0 for b in (first, second)]
        bpf(command, struct.pack("=I4xQQQ", self.fd, *addresses, 0))

    def __iter__(self) -> Iterator[bytes]:
        """All keys."""
        key, following = None, ctypes.create_string_buffer(self.key_size)
        while True:
            try:
                self._call(_NEXT, key, following)
            except OSError as err:
                if err.errno == errno.ENOENT:
                    return
                raise
            key = following.raw
            yield key

    def add(self, key: bytes) -> None:
        """Put *key* in; values mean nothing here."""
        self._call(_UPDATE, key, ctypes.create_string_buffer(b"\1", self.value_size))

    def remove(self, key: bytes) -> None:
        """Take *key* out."""
        self._call(_DELETE, key)

    def total(self, index: int) -> int:
        """The sum over all CPUs of a counter."""
        values = ctypes.create_string_buffer(8 * possible_cpus())
        self._call(_LOOKUP, struct.pack("=I", index), values)
        return sum(n for (n,) in struct.iter_unpack("=Q", values.raw))


def possible_cpus() -> int:
    """How many values a per-CPU map has."""
    ranges = Path("/sys/devices/system/cpu/possible").read_text().strip().split(",")
    return sum(int(last or first) - int(first) + 1 for first, _, last in (r.partition("-") for r in ranges))


def ip(*arguments: str) -> list[dict]:  # type: ignore[type-arg]
    """What `ip -j` says."""
    done = subprocess.run(["ip", "-j", "-d", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlError(done.stderr.strip() or f"ip {' '.join(arguments)} failed")
    return [found for found in json.loads(done.stdout or "[]") if found]


def maps_of(device: str) -> dict[str, Map]:
    """The maps of the decapsulation program on *device*."""
    (link,) = ip("link", "show", "dev", device)
    for attached in link.get("xdp", {}).get("attached", []):
        program, _ = bpf(_PROGRAM_BY_ID, struct.pack("=I", attached["prog"]["id"]))
        ids = (ctypes.c_uint32 * 64)()
        count = struct.unpack_from("=I", information(program, 80, (56, ctypes.addressof(ids))), 52)[0]
        found = [Map(bpf(_MAP_BY_ID, struct.pack("=I", number))[0]) for number in ids[:count]]
        named = {m.name: m for m in found}
        if {"decap_tunnels", "decap_vips", "decap_counts"} <= named.keys():
            return named
    raise ControlError(f"{device} has no decapsulation program: ip link set dev {device} xdp obj decap.o sec xdp")


def addresses_of(device: str) -> list[Address]:
    """The global addresses that *device* has now."""
    shown = ip("address", "show", "dev", device, "scope", "global")
    return [
        ipaddress.ip_address(a["local"]) for found in shown for a in found["addr_info"] if a
    ]  # {}: of another scope


def tunnel_key(local: Address, remote: Network) -> bytes:
    """The key of tunnel packets to *local* from *remote*."""
    packed = remote.network_address.packed
    return _TUNNEL.pack(_FIXED + remote.prefixlen, local.version, local.packed, packed)


def vip_key(vip: Address) -> bytes:
    """The key of an inner destination."""
    return _VIP.pack(vip.version, vip.packed)


def _address(version: int, packed: bytes) -> Address:
    return ipaddress.IPv4Address(packed[:4]) if version == 4 else ipaddress.IPv6Address(packed)


def make_exactly(target: Map, wanted: Iterable[bytes]) -> None:
    """Make *target* hold what is wanted: what stays is there at every moment."""
    keys, there = set(wanted), set(target)
    for key in keys - there:
        target.add(key)
    for key in there - keys:
        target.remove(key)


def allow(device: str, remotes: list[Network], locals_: list[Address], vips: list[Address]) -> None:
    """Take tunnel packets from *remotes* to *locals_* whose inner destination is one of *vips*; and no others."""
    maps = maps_of(device)
    locals_, vips = locals_ or addresses_of(device), vips or addresses_of("lo")
    if not vips:
        raise ControlError("lo has no VIP, and none is given with --vip")
    pairs = [(near, far) for near in locals_ for far in remotes if near.version == far.version]
    if not pairs:
        raise ControlError(f"{device} has no address of the remotes' IP version: give it with --local")
    for far in remotes:
        if not any(far is used for _, used in pairs):
            print(f"decapctl: {device} has no IPv{far.version} address for tunnels from {far}", file=sys.stderr)
    make_exactly(maps["decap_vips"], map(vip_key, vips))
    make_exactly(maps["decap_tunnels"], (tunnel_key(near, far) for near, far in pairs))


def state(device: str) -> dict[str, object]:
    """What is allowed on *device*, and what was counted since the program was attached."""
    maps = maps_of(device)
    tunnels = []
    for key in maps["decap_tunnels"]:
        prefix, version, near, far = _TUNNEL.unpack(key)
        tunnels.append({"local": str(_address(version, near)), "remote": f"{_address(version, far)}/{prefix - _FIXED}"})
    vips = [str(_address(*_VIP.unpack(key))) for key in maps["decap_vips"]]
    counts = {name: maps["decap_counts"].total(i) for i, name in enumerate(OUTCOMES)}
    return {"tunnels": sorted(tunnels, key=str), "vips": sorted(vips), "packets": counts}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("allow", help="make the lists exactly these")
    verb.add_argument("device")
    verb.add_argument(
        "--remote",
        action="append",
        required=True,
        type=ipaddress.ip_network,
        metavar="PREFIX",
        help="the balancers' tunnel addresses; may be repeated",
    )
    verb.add_argument(
        "--local",
        action="append",
        default=[],
        type=ipaddress.ip_address,
        metavar="ADDRESS",
        help="outer destination; by default the device's global addresses",
    )
    verb.add_argument(
        "--vip",
        action="append",
        default=[],
        type=ipaddress.ip_address,
        metavar="ADDRESS",
        help="inner destination; by default the global addresses of lo",
    )
    verb = verbs.add_parser("show", help="the lists, and packets counted, as JSON")
    verb.add_argument("device")
    given = parser.parse_args()
    try:
        if given.verb == "allow":
            allow(given.device, given.remote, given.local, given.vip)
        else:
            print(json.dumps(state(given.device), indent=2))
    except (ControlError, OSError) as err:
        print(f"decapctl: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
