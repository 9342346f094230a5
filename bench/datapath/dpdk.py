# SPDX-License-Identifier: Apache-2.0
"""A private OVS-DPDK: one thread that forwards, on a core of its own, and everything else on the others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.rpc import Rpc
from dnsteer.switch.tools import CommandError, SwitchError, UnavailableError, run

PROGRAM = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
"""Called by its path: what `ovs-vswitchd` means to everybody else (Debian: update-alternatives) stays as it is."""
PACKAGES = "openvswitch-switch-dpdk librte-mempool-ring23 librte-net-null23 librte-net-pcap23"
"""What it needs on Debian 12: OVS-DPDK, and DPDK's drivers for memory pools and for ports without a network card."""

_HUGE = Path("/proc/sys/vm/nr_hugepages")
MEMORY = 1024
"""MiB for packets: as many as OVS likes to have."""
_PAGES = MEMORY // 2  # of 2 MiB
_ANSWER_TIMEOUT = 60.0
_LOG = ("-vconsole:off", "-vsyslog:off", "-vfile:info")
# What DPDK says of a machine without 1 GiB pages and of devices without a card's abilities; what OVS says when a port
# gets another device, and when the revalidator looks at a megaflow that was just emptied away; slow starts.
_EXPECTED = (
    "1048576 kB hugepages",
    "Rx checksum offload is not supported",
    "does not support MTU configuration",
    "could not set configuration (Resource temporarily unavailable)",
    "failed to flow_get (No such file",
    "failed to put[modify] (No such file",
    "corresponding to unexpected flow (No such file",
    "timeval",
    "log messages in last",
)


@contextmanager
def huge_pages() -> Iterator[bool]:
    """Ask the kernel for the huge pages that are missing, and give them back. Yields whether there are enough."""
    before = int(_HUGE.read_text())
    more = max(0, _PAGES - _free_pages())
    try:
        _set_pages(before + more)
        yield _free_pages() >= _PAGES
    finally:
        _set_pages(int(_HUGE.read_text()) - more)  # not as before: others may have changed it meanwhile


def _set_pages(number: int) -> None:
    with suppress(OSError):
        _HUGE.write_text(str(max(0, number)))


def _free_pages() -> int:
    found = re.search(r"HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text())
    return int(found[1]) if found else 0


class DpdkSwitch(PrivateSwitch):
    """A context manager as PrivateSwitch is one, but an OVS-DPDK whose forwarding thread is on *core*. Needs root.

    *memory* is in MiB, *binary* the ovs-vswitchd to run. Its bridges' tap devices are in a network namespace of its own.
    """

    def __init__(self, core: int, *, huge: bool, memory: int = MEMORY, binary: Path = PROGRAM) -> None:
        if not binary.exists():
            raise UnavailableError(f"{binary} is not there; run make setup, or: apt-get install {PACKAGES}")
        super().__init__()
        self._binary = str(binary)
        self.env["RUNTIME_DIRECTORY"] = str(self.dir)  # where DPDK has its own sockets and files
        pages = (
            "" if huge else "--no-huge --legacy-mem "
        )  # without the latter OVS adds --in-memory, which needs huge pages
        self._keys = {
            "dpdk-init": "true",
            "dpdk-extra": f"-m {memory} {pages}--no-pci --no-telemetry --file-prefix={self.dir.name}",
            "dpdk-lcore-mask": f"{1 << min(os.sched_getaffinity(0) - {core} or {core}):#x}",
            "pmd-cpu-mask": f"{1 << core:#x}",
            "max-idle": "3600000",  # no megaflow expires while it is measured
        }

    def __enter__(self) -> DpdkSwitch:
        super().__enter__()
        return self

    def start_switch(self) -> None:
        """Start ovs-vswitchd with DPDK. Raises SwitchError with its last words when DPDK does not start."""
        keys = [f"other_config:{key}={value}" for key, value in self._keys.items()]
        run(["ovs-vsctl", f"--db={self.database}", "--no-wait", "set", "Open_vSwitch", ".", *keys], env=self.env)
        control = self.dir / "vswitchd.ctl"
        arguments = ["--disable-system", f"--unixctl={control}", f"--log-file={self.dir}/vswitchd.log", *_LOG]
        self._spawn(["unshare", "--net", self._binary, self.database, *arguments], control)
        self._control = Rpc(f"unix:{control}", "the private OVS-DPDK", _ANSWER_TIMEOUT)
        try:
            self.vsctl("set", "Open_vSwitch", ".", "external_ids:started=yes")  # comes back when DPDK has started
            started = self.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() == "true"
        except CommandError:
            started = False
        if not started:
            raise SwitchError(f"DPDK did not start: {'; '.join(self.complaints()) or self.log_tail()}")

    def configure(self, keys: Mapping[str, str]) -> None:
        """Set keys of other_config and wait until the switch has followed; an empty value removes the key."""
        args: list[str] = []
        for key, value in keys.items():
            set_ = ["set", "Open_vSwitch", ".", f"other_config:{key}={value}"]
            args += ["--", *(set_ if value else ["remove", "Open_vSwitch", ".", "other_config", key])]
        if args:
            self.vsctl(*args[1:])

    def thread(self) -> Path:
        """The forwarding thread, as its directory in /proc. Raises SwitchError before there is one: it comes with a port."""
        for task in Path(f"/proc/{self._processes['unshare'].pid}/task").iterdir():
            with suppress(OSError):
                if (task / "comm").read_text().startswith("pmd-c"):
                    return task
        raise SwitchError("the private OVS-DPDK has no forwarding thread")

    def hertz(self) -> float:
        """What one cycle of its counters is: the frequency of the processor's time stamp counter, as DPDK found it."""
        found = re.search(r"TSC frequency: (\d+) KHz", (self.dir / "vswitchd.log").read_text())
        if found is None:
            raise SwitchError("OVS-DPDK did not say the time stamp counter's frequency")
        return float(found[1]) * 1e3

    def versions(self) -> dict[str, str]:
        """Versions of OVS and DPDK."""
        dpdk = self.vsctl("get", "Open_vSwitch", ".", "dpdk_version").strip('"\n')
        return {"ovs": self.appctl("version").split("\n")[0].split()[-1], "dpdk": dpdk.removeprefix("DPDK ")}

    def complaints(self) -> list[str]:
        """Warnings and errors in the logs, but for those that every run has."""
        return [line for line in super().complaints() if not any(part in line for part in _EXPECTED)]
