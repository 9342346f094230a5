"""The files of `dnsteer render`: what a plan means, for people to read and for ovs-ofctl and ovs-vsctl to load."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from pathlib import Path

from dnsteer import __version__
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan
from dnsteer.plan.pipeline import COOKIE_MASK, COOKIE_TAG
from dnsteer.render.engine import environment
from dnsteer.render.flows import flow_lines, groups_of, render_flows, render_groups
from dnsteer.spec.load import Loaded

FILES = ("bridge.sh", "groups.txt", "flows.txt", "bundle.txt")


def rendered(loaded: Loaded) -> dict[str, str]:
    """The files' texts by name. The same spec gives the same bytes."""
    plan = build_plan(loaded)
    file = Path(loaded.file).name
    head = (
        f"# {{what}} of bridge {plan.bridge} for {file}, by dnsteer {__version__}; spec digest {plan.digest[:16]}\n"
        f"# load: ovs-ofctl -O OpenFlow15 --names {{how}} {plan.bridge} {{name}}\n"
    )
    flows = render_flows(plan, file)
    return {
        "bridge.sh": _bridge_script(loaded, file),
        "groups.txt": head.format(what="Groups", how="add-groups", name="groups.txt") + render_groups(plan, file),
        "flows.txt": head.format(what="Flows", how="add-flows", name="flows.txt") + flows,
        "bundle.txt": head.format(what="All tables and groups", how="bundle", name="bundle.txt") + _bundle(plan, flows),
    }


def write_files(texts: dict[str, str], folder: Path) -> None:
    """Write all files into *folder*, each whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "w") as stream:
                stream.write(text)
            Path(temporary).chmod(0o755 if name.endswith(".sh") else 0o644)
            Path(temporary).replace(folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _bundle(plan: Plan, flows: str) -> str:
    """One transaction that replaces all that is ours; flows of others stay."""
    lines = ["# one transaction: what was dnsteer's goes, this comes, and no packet meets a state between"]
    lines.append(f"flow delete cookie=0x{COOKIE_TAG << 48:x}/0x{COOKIE_MASK:x}")
    for group in groups_of(plan):
        lines += [f"group delete group_id={group.number}", f"group add {group.text}"]
    lines += [f"flow add {line}" for line in flow_lines(flows)]
    return "\n".join(lines) + "\n"


def _bridge_script(loaded: Loaded, file: str) -> str:
    env = environment()
    env.filters.setdefault("shell", shlex.quote)
    env.filters.setdefault("ovsdb_string", json.dumps)
    bridge = wanted_bridge(loaded.spec)
    return env.get_template("files/bridge.sh.j2").render(
        bridge=bridge, file=file, flavor=loaded.spec.switch.flavor.value
    )
