# SPDX-License-Identifier: Apache-2.0
"""Proxies of transport connections: nginx and HAProxy, each set up as its documentation advises for DNS."""

from __future__ import annotations

import signal
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from bench.hosts import Process
from bench.rig.network import FAMILIES
from bench.rig.peers import BALANCER, KernelPeer
from dnsteer.lab.command import run

_STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


class Proxy(KernelPeer):
    """A program that has the VIP as an address of its machine, and asks servers from another one."""

    owns_vip = True
    _process: Process | None = None

    def load(self, denied: Sequence[str]) -> None:
        """Start it. Raises ValueError for a list of denied prefixes."""
        if denied:
            raise ValueError(f"{type(self).__name__} is measured without lists")
        file = self.folder / f"{self.programs[0]}.conf"
        file.write_text(self.configuration())
        self._process = Process(self.argv(file), BALANCER, self.folder / f"{self.programs[0]}.log")
        self._process.start()

    def unload(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill(signal.SIGTERM)
            self._process = None

    def deny(self, prefix: str) -> None:
        """Not measured. Raises ValueError."""
        raise ValueError(f"{type(self).__name__} is measured without lists")

    @abstractmethod
    def configuration(self) -> str:
        """Its file."""

    @abstractmethod
    def argv(self, file: Path) -> list[str]:
        """How it is started with its *file*, in the foreground."""


class Nginx(Proxy):
    """nginx's stream module: round robin, a worker for each core, one answer to a datagram ends its session."""

    programs: tuple[str, ...] = ("nginx",)

    def configuration(self) -> str:
        """As the guide to TCP and UDP load balancing has it for DNS."""
        listens = "".join(f"    listen {f.to(53)}{udp} reuseport;\n" for f in FAMILIES.values() for udp in ("", " udp"))
        servers = "".join(f"    server {server}:53;\n" for server in FAMILIES[4].servers)
        return f"""\
load_module {_STREAM};
daemon off;
user root;
worker_processes auto;
worker_rlimit_nofile 20000;
pid {self.folder}/nginx.pid;
error_log {self.folder}/nginx.error crit;
events {{ worker_connections 8192; }}
stream {{
  upstream dns {{
{servers}  }}
  server {{
{listens}    proxy_pass dns;
    proxy_responses 1;
    proxy_timeout 1s;
  }}
}}
"""

    def argv(self, file: Path) -> list[str]:
        """In the foreground."""
        return ["nginx", "-e", f"{self.folder}/nginx.error", "-c", str(file)]

    def version(self) -> str:
        """That of nginx."""
        return run(["sh", "-c", "nginx -v 2>&1"]).strip().removeprefix("nginx version: ")


class Haproxy(Proxy):
    """HAProxy: TCP alone, which is all that it forwards; round robin, a thread for each core."""

    programs: tuple[str, ...] = ("haproxy",)
    transports = ("tcp",)

    def configuration(self) -> str:
        """Mode tcp, with the time-outs of its manual's examples, and servers that are checked."""
        binds = "".join(f"  bind {f.to(53)}\n" for f in FAMILIES.values())
        servers = "".join(f"  server s{n} {server}:53 check\n" for n, server in enumerate(FAMILIES[4].servers, 1))
        return (
            "global\n  maxconn 4000\n"
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 50s\n  timeout server 50s\n"
            f"listen dns\n{binds}  balance roundrobin\n{servers}"
        )

    def argv(self, file: Path) -> list[str]:
        """In the foreground."""
        return ["haproxy", "-db", "-f", str(file)]

    def version(self) -> str:
        """That of HAProxy."""
        return run(["haproxy", "-v"]).splitlines()[0].partition(" 20")[0]
