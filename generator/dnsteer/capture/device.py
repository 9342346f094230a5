"""The network devices that mirrors lead to: up, and without a word of their own."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from dnsteer.switch.captures import OutputPort
from dnsteer.switch.tools import SwitchError, UnavailableError


def prepare(port: OutputPort) -> None:
    """Bring the device up, and keep this machine's own stack from using it: no ARP, no IPv6, no multicast.

    Raises SwitchError when it is not on this machine.
    """
    index = Path("/sys/class/net") / port.name / "ifindex"
    try:
        here = int(index.read_text())
    except OSError:
        here = 0
    if here == 0 or here != port.ifindex:
        raise SwitchError(
            f"the switch has opened {port.name}, but this machine or network namespace has no such device; "
            "run dnsteer capture where ovs-vswitchd runs"
        )
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        Path(f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6").write_text("1")
    command = ["ip", "link", "set", "dev", port.name, "arp", "off", "multicast", "off", "up"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise UnavailableError("no program ip: install iproute2") from None
    if done.returncode:
        raise SwitchError(f"{' '.join(command)}: {done.stderr.strip()}")
