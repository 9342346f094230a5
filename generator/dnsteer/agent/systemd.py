"""What the agent tells systemd: that it is ready, that it is alive, and what it does (sd_notify(3))."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(*lines: str) -> None:
    """Send a notification, such as READY=1; nothing where systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        to.send("\n".join(lines).encode())
