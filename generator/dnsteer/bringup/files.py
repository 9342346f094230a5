# SPDX-License-Identifier: Apache-2.0
"""The files of `dnsteer bringup`: the same spec gives the same bytes."""

from __future__ import annotations

import json
import shlex
import textwrap
from types import SimpleNamespace

from dnsteer.bringup import sources
from dnsteer.bringup.setup import Setup
from dnsteer.plan import min_fragment
from dnsteer.plan.lag_settings import OF_KEY
from dnsteer.render.templates import environment, render_template
from dnsteer.spec.model.bringup import PAGE_SIZES

FOLDER = "/etc/dnsteer/bringup"
"""Where the systemd unit expects the scripts."""
UNIT = "dnsteer-bringup.service"
EXTENSION, EXTENSION_UNIT = "50-extension.sh", "dnsteer-ext.service"
PROGRAM = "program.json"
PROGRAM_FOLDER = "/etc/dnsteer/ext"
"""Where the extension's unit expects its program."""
_WIDTH = 120

_CONTENTS = {
    "bringup.sh": "all of it, in order",
    "10-hugepages.sh": "huge pages",
    "20-eswitch.sh": "switchdev mode, and multiport where this spec needs it",
    "25-functions.sh": "scalable functions",
    "30-openvswitch.sh": "settings of Open vSwitch",
    "40-bridge.sh": "the bridge and its ports",
    EXTENSION: "the extension's program: its unit, and that it runs",
    "teardown.sh": "takes it back",
    UNIT: "systemd unit: the scripts up to 30, at every boot, before ovs-vswitchd",
    EXTENSION_UNIT: "systemd unit of the extension",
    PROGRAM: "what the extension starts with; dnsteer apply loads the rest while it runs",
}
NAMES = (*_CONTENTS, "README.md")
"""All files that some spec has."""


def scripts_of(setup: Setup) -> list[str]:
    """Names of the scripts that a setup needs, in the order in which they run."""
    names = ["30-openvswitch.sh", "40-bridge.sh"]
    if setup.memory.pages:
        names.append("10-hugepages.sh")
    if setup.eswitch.needed:
        names.append("20-eswitch.sh")
    if setup.eswitch.scalable:
        names.append("25-functions.sh")
    if setup.program:
        names.append(EXTENSION)
    return sorted(names)


def bringup_files(setup: Setup) -> dict[str, str]:
    """The files' texts by name."""
    scripts = scripts_of(setup)
    names = ["bringup.sh", *scripts, "teardown.sh", UNIT, *([EXTENSION_UNIT] if setup.program else [])]
    contents = {name: _CONTENTS[name] for name in [*names, *([PROGRAM] if setup.program else [])]}
    env = environment()
    env.filters.setdefault("shell", shlex.quote)
    env.filters.setdefault("ovsdb_string", json.dumps)
    env.filters.setdefault("comment", _comment)
    values = {
        "setup": setup,
        "scripts": scripts,
        "contents": contents,
        "extension": setup.switch.extension,
        "program_folder": PROGRAM_FOLDER,
        "page_names": {size: name for name, size in PAGE_SIZES.items()},
        "min_fragment": min_fragment,
        "OF_KEY": OF_KEY,
        "S": SimpleNamespace(**{k: v for k, v in vars(sources).items() if k.isupper()}),
    }
    texts = {name: render_template(f"bringup/{name}.j2", **values) for name in [*names, "README.md"]}
    found = {name: _tidy(text) for name, text in texts.items()}
    return {**found, PROGRAM: setup.program} if setup.program else found


def _comment(text: str) -> str:
    """*text* as comments of a script."""
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"# {line}" for line in lines)


def _tidy(text: str) -> str:
    """*text* without blank lines at its ends, and never two in a row."""
    out: list[str] = []
    for line in text.strip().splitlines():
        if line or out[-1]:
            out.append(line)
    return "\n".join(out) + "\n"
