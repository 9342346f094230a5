"""Plan -> the extension's program, a JSON file that follows datapath_ext/program.schema.json."""

from __future__ import annotations

import json
from typing import Any

from dnsteer.modes.extension import ExtendedService
from dnsteer.plan.extension.program import Extension

VERSION = 1
"""Version of the format, which the extension checks."""


def program_of(extension: Extension) -> dict[str, Any]:
    """Return the program. Services of a pool without backends are left out: the extension drops unknown packets."""
    program: dict[str, Any] = {
        "version": VERSION,
        "ports": {"in": extension.ingress.device, "out": extension.egress.device},
        "budgets": extension.budgets,
        "backends": [
            {"name": t.name, "mac": t.mac, **({"address": t.address} if t.address else {})}
            for t in extension.targets.values()
        ],
        "vips": [_vip(service) for service in extension.services if service.slots],
    }
    if extension.ipv4 or extension.ipv6:
        ends = {"ipv4": extension.ipv4, "ipv6": extension.ipv6}
        program["tunnel"] = {"mac": extension.mac, **{key: end for key, end in ends.items() if end}}
    return program


def program_text(extension: Extension, about: str) -> str:
    """Return the program as the text of a file, one line per VIP. *about* says what it was made from."""
    program = {"about": about, **program_of(extension)}
    vips: list[Any] = program.pop("vips")
    head = json.dumps(program, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(vip) for vip in vips)
    return f'{head},\n  "vips": [\n{lines}\n  ]\n}}\n'


def _vip(service: ExtendedService) -> dict[str, Any]:
    return {
        "name": service.name,
        "family": service.family,
        "address": service.address,
        "protocol": service.protocol,
        "port": service.port,
        "select": service.select,
        **({"hash_fields": list(service.hash_fields)} if service.hash_fields else {}),
        "forward": service.forward,
        "slots": list(service.slots),
    }
