# SPDX-License-Identifier: Apache-2.0
"""Plan -> the extension's program, a JSON file that follows datapath_ext/program.schema.json."""

from __future__ import annotations

import json

from dnsteer.modes.extension import ExtendedService
from dnsteer.plan.extension.program import (
    BackendAddress,
    ExtensionPlan,
    HashFields,
    ProbeAddress,
    ProbeNumbers,
    Program,
    ProgramVip,
    TunnelSources,
)

VERSION = 1
"""Version of the format, which the extension checks."""


def program_of(extension: ExtensionPlan) -> Program:
    """Return the program. Services that reach no backend are left out: the extension drops unknown packets."""
    program: Program = {
        "version": VERSION,
        "ports": {"in": extension.ingress.device, "out": extension.egress.device},
        "budgets": extension.budgets,
        "backends": [
            {"name": t.name, "mac": t.mac, **(BackendAddress(address=t.address) if t.address else BackendAddress())}
            for t in extension.targets.values()
        ],
        "vips": [_vip(service) for service in extension.services if service.reached],
    }
    if extension.ipv4 or extension.ipv6:
        sources = TunnelSources()
        if extension.ipv4:
            sources["ipv4"] = extension.ipv4
        if extension.ipv6:
            sources["ipv6"] = extension.ipv6
        program["tunnel"] = {"mac": extension.mac, **sources}
    if extension.probe_mac:
        address = ProbeAddress(ipv4=extension.probe_ipv4) if extension.probe_ipv4 else ProbeAddress()
        program["probe"] = {"mac": extension.probe_mac, **address}
    return program


def program_text(extension: ExtensionPlan, about: str) -> str:
    """Return the program as the text of a file, one line per VIP. *about* says what it was made from."""
    program = program_of(extension)
    others = {key: value for key, value in program.items() if key != "vips"}
    head = json.dumps({"about": about, **others}, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(vip) for vip in program["vips"])
    return f'{head},\n  "vips": [\n{lines}\n  ]\n}}\n'


def _vip(service: ExtendedService) -> ProgramVip:
    return {
        "name": service.name,
        "family": service.family,
        "address": service.address,
        "protocol": service.protocol,
        "port": service.port,
        "select": service.select,
        **(HashFields(hash_fields=list(service.hash_fields)) if service.hash_fields else HashFields()),
        "forward": service.forward,
        "slots": list(service.slots),
        **(ProbeNumbers(probes=dict(service.probes)) if service.probes else ProbeNumbers()),
    }
