# SPDX-License-Identifier: Apache-2.0
"""The files of `dnsteer render`: a plan as commented text that ovs-ofctl and ovs-vsctl can load."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from dnsteer import __version__
from dnsteer.plan import lag_settings, min_fragment
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.plan.tracked_zone import OWNER, zone_settings
from dnsteer.plan.tunnel_routes import tunnel_routes
from dnsteer.render.atomic_files import replace_files
from dnsteer.render.flows import groups_of, render_flows, render_groups
from dnsteer.render.meters import render_meters
from dnsteer.render.program import program_text
from dnsteer.render.template_types import check_own_template_rows
from dnsteer.render.templates import environment, render_template
from dnsteer.spec.bonds import lag_names
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.neighbors import stand_ins_text
from dnsteer.spec.parts.effective_text import as_own_text, is_effective
from dnsteer.tables.cookies import COOKIE_MASK, COOKIE_TAG

PROGRAM = "program.json"
"""The extension's program, if the spec has an extension."""
EFFECTIVE = "effective.yaml"
"""The effective spec, if the spec has several files, variables or defaults."""
State = Literal["new", "changed", "unchanged", "removed"]
"""What happened to a file."""
_OURS = re.compile(rb"\bby dnsteer (bringup )?[0-9]")
_HEAD = 5
"""Number of leading lines that are searched for the mark of dnsteer."""


def rendered(loaded: Loaded) -> dict[str, str]:
    """Return the files' texts by name. The same spec gives the same bytes."""
    check_own_template_rows()
    plan = build_plan(loaded)
    file = Path(loaded.file).name
    head = (
        f"# {{what}} of bridge {plan.bridge} for {file}, by dnsteer {__version__}; spec digest {plan.digest[:16]}\n"
        f"# load: ovs-ofctl -O OpenFlow15 --names {{how}} {plan.bridge} {{name}}\n"
    )
    stand_ins = f"# {told}\n" if (told := stand_ins_text(loaded.spec)) else ""
    text, flows = render_flows(plan, file)
    texts = {
        "bridge.sh": _bridge_script(loaded, plan, file),
        "meters.sh": render_template(
            "files/meters.sh.j2", bridge=plan.bridge, file=file, lines=render_meters(plan, file).splitlines()
        ),
        "groups.txt": head.format(what="Groups", how="add-groups", name="groups.txt") + render_groups(plan, file),
        "flows.txt": head.format(what="Flows", how="add-flows", name="flows.txt") + stand_ins + text,
        "bundle.txt": head.format(what="All tables and groups", how="bundle", name="bundle.txt")
        + stand_ins
        + _bundle(plan, flows),
    }
    if is_effective(loaded.document.text):
        about = f"# Spec of bridge {plan.bridge} for {file}, by dnsteer {__version__}; spec digest {plan.digest[:16]}\n"
        texts[EFFECTIVE] = about + as_own_text(loaded.document.text)
    if plan.extension:
        about = f"Program of the extension for {file}, by dnsteer {__version__}; spec digest {plan.digest[:16]}"
        texts[PROGRAM] = program_text(plan.extension, about)
    return texts


def write_files(
    texts: Mapping[str, str], folder: Path, *, stale: Iterable[str] = (), force: bool = False
) -> dict[str, State]:
    """Write all files into *folder*, or none, and remove those of *stale* that dnsteer made earlier.

    A file that dnsteer did not make is replaced only with *force*; without it nothing is written. Raises OSError that
    names the file; when the disk is full all files are unchanged.
    """
    states = {name: _state(folder / name, text) for name, text in texts.items()}
    foreign = [folder / name for name, state in states.items() if state != "new" and not _is_ours(folder / name)]
    blocked = [file for file in foreign if not force or not file.is_file()]
    if blocked:
        said = "not made by dnsteer; nothing was written: choose another folder" + (
            "" if force else ", or give --force"
        )
        raise FileExistsError(errno.EEXIST, said, ", ".join(map(str, blocked)))
    old = [name for name in stale if name not in texts and _is_ours(folder / name)]
    fresh = {folder / name: texts[name].encode() for name, state in states.items() if state != "unchanged"}
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        replace_files(fresh, {file: _mode(file) for file in fresh})
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise
    for name in old:
        (folder / name).unlink()
    return {**states, **dict.fromkeys(old, "removed")}


def _state(file: Path, text: str) -> State:
    """Return what writing *text* to *file* would do."""
    if not os.path.lexists(file):
        return "new"
    same = file.is_file() and file.read_bytes() == text.encode() and stat.S_IMODE(file.stat().st_mode) == _mode(file)
    return "unchanged" if same else "changed"


def _is_ours(file: Path) -> bool:
    """Whether the first lines of a file have the mark of dnsteer."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return _OURS.search(b"".join(islice(stream, _HEAD))) is not None


def _mode(file: Path) -> int:
    return 0o755 if file.suffix == ".sh" else 0o644


def _bundle(plan: Plan, flows: Iterable[str]) -> str:
    """Return one bundle that replaces all of dnsteer's flows and groups; flows of others stay."""
    lines = ["# one transaction: what was dnsteer's goes, this comes, and no packet meets a state between"]
    lines.append(f"flow delete cookie=0x{COOKIE_TAG << 48:x}/0x{COOKIE_MASK:x}")
    for group in groups_of(plan):
        lines += [f"group delete group_id={group.number}", f"group add {group.text}"]
    lines += [f"flow add {flow}" for flow in flows]
    return "\n".join(lines) + "\n"


def _bridge_script(loaded: Loaded, plan: Plan, file: str) -> str:
    env = environment()
    env.filters.setdefault("shell", shlex.quote)
    env.filters.setdefault("ovsdb_string", json.dumps)
    env.filters.setdefault("lag_names", lag_names)
    bridge = wanted_bridge(loaded.spec)
    return render_template(
        "files/bridge.sh.j2",
        lags=lag_settings,
        bridge=bridge,
        file=file,
        flavor=loaded.spec.switch.flavor.value,
        min_fragment=min_fragment,
        size=min_fragment.required_size(plan, bridge.datapath_type),
        tracked=zone_settings(loaded.spec),
        tunnels=tunnel_routes(plan),
        zone_owner=OWNER,
    )
