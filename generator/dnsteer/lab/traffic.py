# SPDX-License-Identifier: Apache-2.0
"""Send queries in a running lab, one with kdig or many with dnsperf, and read the name servers' counters."""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import TracebackType

from dnsteer.lab import names, nameserver
from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.errors import LabCommandError, LabError
from dnsteer.lab.state import LabState
from dnsteer.lab.zone import queries_text
from dnsteer.render.atomic_files import write_file

MAX_CLIENTS = 256
"""Maximum sockets of one dnsperf thread: it ignores a higher number."""


def client_command(lab: LabState, argv: Sequence[str], *, uplink: str | None = None) -> list[str]:
    """The command line that runs *argv* at the client behind *uplink* (the first one when left out)."""
    return netns_exec(lab.client(uplink).namespace, argv)


def run_in_client(
    lab: LabState, argv: Sequence[str], *, uplink: str | None = None, timeout: float = 20.0
) -> subprocess.CompletedProcess[str]:
    """Run *argv* at a client. The caller must check the exit code. Raises LabCommandError when it does not end in time."""
    command = client_command(lab, argv, uplink=uplink)
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=program_environment(),
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as err:
        raise LabCommandError(command, f"did not end within {timeout:g} s") from err


@dataclass(frozen=True)
class Answer:
    """An answer to one query. *records* are the data of the answer section as kdig prints them; *size* is in bytes."""

    status: str
    records: tuple[str, ...]
    flags: tuple[str, ...]
    size: int
    source: str
    nsid: str
    text: str


def ask(
    lab: LabState,
    server: str,
    name: str,
    rrtype: str = "A",
    *,
    port: int = 53,
    transport: str = "udp",
    bufsize: int = 1232,
    local: str | None = None,
    uplink: str | None = None,
    timeout: int = 2,
) -> Answer | None:
    """Query *server* once, over `udp`, `tcp` or `tls`, without retry. None when no answer came."""
    if transport not in _TRANSPORTS:
        raise LabError(f"transport {transport!r}; expected one of {', '.join(_TRANSPORTS)}")
    argv = ["kdig", *([] if local is None else ["-b", local]), "-p", str(port), f"@{server}", name, rrtype]
    argv += [*_TRANSPORTS[transport], "+ignore", "+nsid", f"+bufsize={bufsize}", f"+timeout={timeout}", "+retry=0"]
    done = run_in_client(lab, argv, uplink=uplink, timeout=timeout + 10.0)
    return _answer(done.stdout)


_TRANSPORTS = {"udp": ("+notcp",), "tcp": ("+tcp",), "tls": ("+tls",)}


def _answer(text: str) -> Answer | None:
    header = re.search(r"status: (\w+);", text)
    received = re.search(r"^;; Received (\d+) B", text, re.M)
    if header is None or received is None:
        return None
    flags = re.search(r"^;; Flags: ([a-z ]*);", text, re.M)
    source = re.search(r"^;; From (\S+)@\d+\(", text, re.M)
    nsid = re.search(r'^;; NSID: .*"(.*)"$', text, re.M)
    section = text.partition(";; ANSWER SECTION:\n")[2].partition("\n\n")[0]
    records = tuple(line.split(None, 4)[4] for line in section.splitlines() if line)
    return Answer(
        header.group(1),
        records,
        tuple(flags.group(1).split() if flags else ()),
        int(received.group(1)),
        source.group(1) if source else "",
        nsid.group(1) if nsid else "",
        text,
    )


def query_counters(lab: LabState) -> dict[str, dict[str, int]]:
    """Queries each name server has seen since it started: name -> {"udp": n, "tcp": n}.

    Do not call under load: NSD replaces its serving process to collect the numbers, which closes its TCP connections.
    """
    return {server.name: nameserver.counters(server.index) for server in lab.servers}


@dataclass(frozen=True)
class Load:
    """What dnsperf is to do. Either *seconds* or *repeats* (of the query file, `queries_in_file` each) is given.

    dnsperf opens *clients* sockets at consecutive source ports and takes them in turn, where real clients draw a random
    port for each query (RFC 5452). A number of clients that is a multiple of twice a pool's slots, from an even port,
    reaches every slot equally often.
    """

    server: str
    port: int = 53
    transport: str = "udp"
    clients: int = 128
    outstanding: int = 100
    seconds: float | None = None
    repeats: int | None = None
    max_qps: int | None = None
    local: str | None = None
    first_port: int | None = None
    """First source port, from `reserve_ports`; left out, the run takes the next ones."""
    any_ports: bool = False
    """Whether the kernel chooses the source ports: dnsperf fails when a TCP connection from a given port breaks."""
    uplink: str | None = None
    timeout: int = 5
    threads: int = 1
    report_seconds: float | None = None
    """Also report the rate of each interval of so many seconds, in `LoadResult.rates`."""
    report_queries: bool = False
    """Also report the latency of each query, in `LoadResult.latencies`."""


@dataclass(frozen=True)
class LoadResult:
    """What dnsperf reported. *lost* are queries without an answer within the time limit; *latency* is in seconds.

    *reconnections* are those of TCP. *rates* are the answers a second of each interval, with `Load.report_seconds`.
    """

    sent: int
    completed: int
    lost: int
    interrupted: int
    seconds: float
    qps: float
    latency: float
    max_latency: float
    rcodes: dict[str, int] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    reconnections: int = 0
    rates: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()
    """Seconds that each answer took, with `Load.report_queries`."""


def queries_in_file() -> int:
    """Number of queries that one repeat of the query file sends."""
    return queries_text().count("\n")


class RunningLoad:
    """A running dnsperf. As a context manager, it is ended when the block ends."""

    def __init__(self, process: subprocess.Popen[str], argv: list[str]) -> None:
        self._process = process
        self._argv = argv
        self._output: tuple[str, str] | None = None

    def __enter__(self) -> RunningLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def done(self, within: float = 0.0) -> bool:
        """Whether it has ended, or does so within that many seconds."""
        if self._output is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._output = self._process.communicate(timeout=within)
        return self._output is not None

    def stop(self) -> LoadResult:
        """End it now and return its result; queries in flight count as interrupted, not as lost."""
        self._process.send_signal(signal.SIGINT)
        return self.wait(20.0)

    def kill(self) -> None:
        """Kill it without a result; does nothing when it has already ended."""
        if not self.done():
            self._process.kill()
            self._process.communicate()

    def wait(self, timeout: float) -> LoadResult:
        """The result. Raises LabCommandError when it failed or takes longer than *timeout* seconds."""
        if not self.done(timeout) or self._output is None:
            self.kill()
            raise LabCommandError(self._argv, f"did not end within {timeout:g} s")
        out, problem = self._output
        if self._process.returncode != 0 or "Queries sent:" not in out:
            message = " / ".join((problem or out).strip().splitlines()[-2:])
            raise LabCommandError(self._argv, f"failed with exit code {self._process.returncode}: {message}")
        return _result(out, self._argv)


def start_dnsperf(lab: LabState, load: Load) -> RunningLoad:
    """Start dnsperf at a client, from source ports that no run has used lately."""
    if not 1 <= load.clients <= MAX_CLIENTS * load.threads:
        raise LabError(f"{load.clients} clients; expected 1 to {MAX_CLIENTS * load.threads}")
    if (load.seconds is None) == (load.repeats is None):
        raise LabError("a load has either seconds or repeats")
    queries = names.RUN_DIR / "queries"
    if not queries.exists():
        write_file(queries, queries_text())
    client = lab.client(load.uplink)
    version = ip_address(load.server).version
    local = load.local or next(a for a in client.addresses if ip_address(a).version == version)
    first = 0 if load.any_ports else load.first_port or reserve_ports(local, load.clients)
    argv = ["dnsperf", "-s", load.server, "-p", str(load.port), "-a", local, "-d", str(queries)]
    argv += ["-m", {"udp": "udp", "tcp": "tcp", "tls": "dot"}[load.transport]]
    argv += ["-c", str(load.clients), "-x", str(first), "-q", str(load.outstanding)]
    argv += ["-t", str(load.timeout), "-T", str(load.threads)]
    argv += [] if load.report_seconds is None else ["-S", f"{load.report_seconds:g}"]
    argv += ["-v"] if load.report_queries else []
    argv += [] if load.seconds is None else ["-l", f"{load.seconds:g}"]
    argv += [] if load.repeats is None else ["-n", str(load.repeats)]
    argv += [] if load.max_qps is None else ["-Q", str(load.max_qps)]
    process = subprocess.Popen(
        netns_exec(client.namespace, argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=program_environment(),
    )
    return RunningLoad(process, argv)


def reserve_ports(local: str, count: int) -> int:
    """The first, even, of *count* consecutive source ports at the address *local*: the next of the range in turn.

    dnsperf binds without SO_REUSEADDR and closes its TCP connections itself, so that their ports stay in TIME_WAIT for a
    minute: a second run from the same ports could not start.
    """
    count += count % 2
    with (names.RUN_DIR / "ports.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        following: dict[str, int] = json.loads(file.read() or "{}")
        first = following.get(local, names.DNSPERF_PORTS.start)
        if first + count > names.DNSPERF_PORTS.stop:
            first = names.DNSPERF_PORTS.start
        following[local] = first + count
        file.truncate(0)
        file.write(json.dumps(following))
    return first


def _result(text: str, argv: list[str]) -> LoadResult:
    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        return float(found.group(1)) if found else 0.0

    codes = re.search(r"Response codes:(.*)", text)
    return LoadResult(
        sent=int(number(r"Queries sent:\s+(\d+)")),
        completed=int(number(r"Queries completed:\s+(\d+)")),
        lost=int(number(r"Queries lost:\s+(\d+)")),
        interrupted=int(number(r"Queries interrupted:\s+(\d+)")),
        seconds=number(r"Run time \(s\):\s+([\d.]+)"),
        qps=number(r"Queries per second:\s+([\d.]+)"),
        latency=number(r"Average Latency \(s\):\s+([\d.]+)"),
        max_latency=number(r"Average Latency \(s\):.*max ([\d.]+)\)"),
        rcodes={name: int(n) for name, n in re.findall(r"([A-Z]+) (\d+) \(", codes.group(1) if codes else "")},
        argv=tuple(argv),
        reconnections=int(number(r"Reconnections:\s+(\d+)")),
        rates=tuple(float(n) for n in re.findall(r"^\d+\.\d+: ([\d.]+)$", text, re.M)),
        latencies=tuple(float(n) for n in re.findall(r"^> [A-Z]+ .* ([\d.]+)$", text, re.M)),
    )
