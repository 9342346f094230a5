"""A plan loaded into a private switch: put packets in, see what comes out and which megaflows they made."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from types import TracebackType

from scapy.utils import RawPcapReader

from dnsteer.plan.objects import Plan
from dnsteer.proof.reference import Frame
from dnsteer.render.flows import groups_of, lines_of
from dnsteer.switch.megaflows import Counters, Megaflow, read_counters, read_megaflows
from dnsteer.switch.openflow import OpenFlow, changes
from dnsteer.switch.private import PrivateSwitch
from dnsteer.switch.tools import SwitchError

_BATCH = 100  # a dummy device queues 100 packets and drops what comes on top


class Harness:
    """A context manager: the plan's bridge in a PrivateSwitch, with the ports of the spec as dummy devices."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.switch = PrivateSwitch()
        self._offsets: dict[str, int] = {}
        self._sent = 0

    def __enter__(self) -> Harness:
        self.switch.__enter__()
        try:
            self._load()
        except BaseException:
            self.switch.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.switch.stop()

    def _load(self) -> None:
        plan, switch = self.plan, self.switch
        args = ["add-br", plan.bridge, "--", "set", "Bridge", plan.bridge, "datapath_type=dummy", "fail_mode=secure"]
        # Nothing may expire while packets are still being counted.
        args += ["--", "set", "Open_vSwitch", ".", "other_config:max-idle=3600000", "other_config:flow-limit=1000000"]
        for port in plan.ports:
            capture = f"options:tx_pcap={self._capture(port.name)}"
            args += [
                "--",
                "add-port",
                plan.bridge,
                port.name,
                "--",
                "set",
                "Interface",
                port.name,
                "type=dummy",
                capture,
            ]
        switch.vsctl(*args)
        self.openflow = OpenFlow(f"unix:{switch.dir}/{plan.bridge}.mgmt", switch.env)
        lines, groups = dict.fromkeys(lines_of(plan)), groups_of(plan)
        self.openflow.bundle(changes(lines, groups, self.openflow.dump()).bundle())
        left = changes(lines, groups, self.openflow.dump(lambda: lines))
        if left:
            raise SwitchError(f"the switch holds something else than what was loaded: {left.bundle()[0]}")

    def _capture(self, port: str) -> str:
        return str(self.switch.dir / f"{port}.pcap")

    def counters(self) -> Counters:
        """Packets so far, by the switch's own count."""
        return read_counters(self.switch.appctl("dpif-netdev/pmd-stats-show"))

    def send(self, frames: Iterable[Frame]) -> list[Frame]:
        """Put frames in, wait until the switch has processed them, and return what left, port by port in order."""
        port, batch = "", list[str]()

        def flush() -> None:
            if batch:
                self.switch.appctl("netdev-dummy/receive", port, *batch)
                self._sent += len(batch)
                batch.clear()
                self._settle()

        for frame in frames:
            if frame.port != port or len(batch) >= _BATCH:
                flush()
                port = frame.port
            batch.append(frame.data.hex())
        flush()
        return self._collect()

    def _settle(self) -> None:
        deadline = time.monotonic() + 60
        while self.counters().received < self._sent:
            if time.monotonic() > deadline:
                raise SwitchError("the private switch did not process all packets within 60 s")
            time.sleep(0.002)

    def _collect(self) -> list[Frame]:
        out = []
        for port in self.plan.ports:
            with RawPcapReader(self._capture(port.name)) as reader:
                seen = self._offsets.get(port.name, 0)
                packets = [Frame(port.name, bytes(data)) for data, _ in islice(reader, seen, None)]
            self._offsets[port.name] = seen + len(packets)
            out += packets
        return out

    def megaflows(self) -> list[Megaflow]:
        """The datapath flows now."""
        return read_megaflows(self.switch.dump("dpctl/dump-flows", "-m"))

    def forget_megaflows(self) -> None:
        """Empty the datapath, so that the next packets start anew."""
        self.switch.appctl("dpctl/del-flows")

    def port_number(self, name: str) -> int:
        """The OpenFlow number of a port of the private switch."""
        return int(self.switch.vsctl("get", "Interface", name, "ofport"))

    def trace(self, port: str, data: bytes) -> str:
        """`ofproto/trace` of a packet."""
        return self.switch.appctl("ofproto/trace", self.plan.bridge, f"in_port={self.port_number(port)}", data.hex())
