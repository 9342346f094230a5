# SPDX-License-Identifier: Apache-2.0
"""The name servers: one NSD for each backend, in the backend's namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dns.serial import Serial

from dnsteer.lab import names, processes
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.errors import LabCommandError
from dnsteer.lab.names import ZONE
from dnsteer.lab.topology import Server, Topology
from dnsteer.lab.zone import zone_text
from dnsteer.render.atomic_files import write_file
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import RANDOM_LABEL
from dnsteer.spec.model.spec import Spec

START_SECONDS = 10.0
"""Seconds that a server may take until it answers on its control socket."""
_KEY, _CERTIFICATE = "tls.key", "tls.pem"


def directory(index: int) -> Path:
    """Directory of the server number *index*: its configuration, zone, log and control socket."""
    return names.RUN_DIR / f"ns{index}"


def config_file(index: int) -> Path:
    """Configuration of the server number *index*; nsd-control reads it too."""
    return directory(index) / "nsd.conf"


def start_all(topology: Topology, progress: Callable[[str], None]) -> None:
    """Write the configurations, start every server and wait until all answer."""
    servers = list(topology.servers())
    progress(f"starting {len(servers)} name servers (NSD)")
    if any(server.tls_port is not None for _, server in servers):
        _certificate()
    checked = checked_zones(topology.spec)
    for index, (host, server) in enumerate(servers):
        home = directory(index)
        home.mkdir(mode=0o755)
        write_file(home / "zone", zone_text(server.name))
        for number, text in enumerate(checked.values()):
            write_file(home / f"checked{number}", text)
        write_file(config_file(index), configuration(index, server, checked))
        _launch(index, host.namespace)
    for index, (host, _) in enumerate(servers):
        _wait(index, host.namespace)


def kill(index: int, namespace: str) -> list[int]:
    """Kill the processes of the server number *index* as a crash would, and wait until they are gone. Returns their ids."""
    killed = list[int]()
    while pids := pids_of(index, namespace):  # again, for one that was just forked
        processes.kill(pids)
        killed += pids
    return killed


def start(index: int, namespace: str) -> None:
    """Start a server that was killed, and wait until it answers on its control socket. Raises LabCommandError."""
    _launch(index, namespace)
    _wait(index, namespace)


def pids_of(index: int, namespace: str) -> list[int]:
    """The processes of the server number *index*: NSD has one that serves and others around it."""
    return processes.find_by_argument(namespace, "nsd", str(config_file(index)))


def _launch(index: int, namespace: str) -> None:
    # NSD reads the authorities of certificates for zone transfers, of which there are none: half of the time of a start.
    argv = netns_exec(namespace, ["env", "SSL_CERT_FILE=/dev/null", "nsd", "-c", str(config_file(index))])
    try:
        run(argv)
    except LabCommandError as err:
        last = _last_line(index)
        raise LabCommandError(argv, f"{err.problem}; its log ends with: {last}" if last else err.problem) from err


_LARGE, _SMALL = 4096, 1232
"""Maximum bytes of an answer over UDP: the default would truncate the large answer, which is meant to be fragmented; if
answers are translated, their fragments are lost, so the small limit applies."""


def configuration(index: int, server: Server, checked: Iterable[str]) -> str:
    """Return nsd.conf for *server*: it listens only where the VIPs need it, and no limit throttles a load test.

    *checked* are the zones that health checks ask for, in the order of their files.
    """
    home = directory(index)
    longest = _SMALL if server.small else _LARGE
    lines = [
        "server:",
        *(f"    ip-address: {address}@{port}" for address, port in server.listen),
        "    server-count: 1",
        '    username: ""',
        f'    zonesdir: "{home}"',
        f'    pidfile: "{home / "nsd.pid"}"',
        f'    logfile: "{home / "nsd.log"}"',
        f'    zonelistfile: "{home / "zone.list"}"',
        f'    xfrdfile: "{home / "xfrd.state"}"',
        f'    xfrdir: "{home}"',
        '    database: ""',
        f'    identity: "{server.name}"',
        f'    nsid: "ascii_{server.name}"',
        "    hide-version: yes",
        # Debian's NSD limits answers for one name by default, and one client asks for all of them here.
        "    rrl-ratelimit: 0",
        "    rrl-whitelist-ratelimit: 0",
        "    rrl-size: 1000",  # the table of these limits: 30 ms of a start for the default million
        f"    ipv4-edns-size: {longest}",
        f"    ipv6-edns-size: {longest}",
        # Above half of these NSD gives a connection 0.2 s. They may all be at one server, and idle for long.
        "    tcp-count: 4000",
        "    tcp-timeout: 600",
    ]
    if server.tls_port is not None:
        lines += [
            f"    tls-port: {server.tls_port}",
            f'    tls-service-key: "{names.RUN_DIR / _KEY}"',
            f'    tls-service-pem: "{names.RUN_DIR / _CERTIFICATE}"',
        ]
    lines += [
        "remote-control:",
        "    control-enable: yes",
        f'    control-interface: "{home / "control.sock"}"',
        "zone:",
        f'    name: "{names.ZONE}"',
        '    zonefile: "zone"',
    ]
    for number, name in enumerate(checked):
        lines += ["zone:", f'    name: "{name}"', f'    zonefile: "checked{number}"']
    return "\n".join(lines) + "\n"


def counters(index: int) -> dict[str, int]:
    """Queries that the server number *index* has seen since it started, by transport."""
    values: dict[str, int] = {"udp": 0, "tcp": 0}
    for line in run(["nsd-control", "-c", str(config_file(index)), "stats_noreset"]).splitlines():
        key, _, value = line.partition("=")
        for transport, keys in _COUNTED.items():
            if key in keys:
                values[transport] += int(value)
    return values


_COUNTED = {"udp": ("num.udp", "num.udp6"), "tcp": ("num.tcp", "num.tcp6", "num.tls", "num.tls6")}


def _wait(index: int, namespace: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            run(["nsd-control", "-c", str(config_file(index)), "status"])
            return
        except LabCommandError as err:
            if time.monotonic() > deadline:
                problem = f"did not come up: {_last_line(index) or err}"
                raise LabCommandError(netns_exec(namespace, ["nsd"]), problem) from err
            time.sleep(0.02)


def _last_line(index: int) -> str:
    """The last line of a server's log: it says there why it ends, and nothing on standard error."""
    log = directory(index) / "nsd.log"
    return "".join(log.read_text(errors="replace").splitlines()[-1:]) if log.exists() else ""


def _certificate() -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subject = ["-subj", f"/CN={names.ZONE}", "-addext", f"subjectAltName=DNS:{names.ZONE}"]
    files = ["-keyout", str(names.RUN_DIR / _KEY), "-out", str(names.RUN_DIR / _CERTIFICATE)]
    argv = ["openssl", "req", "-x509", *key, "-days", "30", *subject, *files]
    run(netns_exec(names.SWITCH_NAMESPACE, argv))


def checked_zones(spec: Spec) -> Mapping[str, str]:
    """The zones whose SOA health checks ask for, besides ZONE: name with the final dot -> text in master file format.

    Names are in lower case, since zones whose names differ in case are one. The serial of a zone is the highest that a check
    wants of it (RFC 1982), else 1.
    """
    asked = [effective_query(pool, check) for pool in spec.pools.values() for check in pool.health or []]
    serials = dict[str, list[int]]()
    for query in asked:
        name = query.name.lower()
        zone = query.type == "SOA" and query.rdclass == "IN" and name not in (".", f"{ZONE}.")
        if zone and not name.startswith(RANDOM_LABEL):
            wanted = serials.setdefault(name, [])
            if query.serial_at_least is not None:
                wanted.append(query.serial_at_least)
    return {name: _zone_of_checks(name, max(wanted, key=Serial, default=1)) for name, wanted in serials.items()}


def _zone_of_checks(name: str, serial: int) -> str:
    return f"$TTL 300\n{name} SOA ns.{ZONE}. hostmaster.{ZONE}. {serial} 3600 600 86400 300\n{name} NS ns.{ZONE}.\n"
