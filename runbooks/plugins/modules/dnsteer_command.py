#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module: run dnsteer, read the JSON that it prints, and say in short lines why it failed."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: dnsteer_command
short_description: run dnsteer and read what it prints
description:
  - Runs C(dnsteer), or a script of C(dnsteer bringup), without a shell.
  - Has changed where it prints JSON with C(changed) set. Where it fails, C(msg) has its reason in short lines.
author: dnsteer
version_added: 0.1.0
options:
  argv:
    description: The command and its arguments.
    type: list
    elements: str
    required: true
  chdir:
    description: Folder to run it in. Empty for the one that it is in anyway.
    type: str
    default: ""
  codes:
    description: Exit codes that are no failure.
    type: list
    elements: int
    default: [0]
"""
EXAMPLES = """
- name: Undrain
  dnsteer_command:
    argv: [/opt/dnsteer/bin/dnsteer, undrain, farm/ns1, --json]
"""
RETURN = """
code:
  description: The exit code; 127 where the command cannot be run.
  returned: always
  type: int
said:
  description: The JSON object that was printed; empty where none was.
  returned: unless it failed
  type: dict
output:
  description: What was printed on standard output, as it is.
  returned: unless it failed
  type: str
lines:
  description: What was printed else, on standard output and then on standard error.
  returned: unless it failed
  type: list
  elements: str
"""
_LINES = 12
"""Lines of a reason that are repeated."""


def reason(said: dict[str, Any], lines: list[str]) -> list[str]:
    """Why dnsteer failed: its error, the errors that it found in a spec, what it says needs attention or differs, or else
    what it printed."""
    if said.get("error"):
        return str(said["error"]).splitlines()
    if said.get("errors"):
        return [
            f"{e['file']}:{e['line']}: {e['path']}: found {e['found']}; expected {e['expected']}"
            + (f" ({e['hint']})" if e.get("hint") else "")
            if isinstance(e, dict)
            else str(e)
            for e in said["errors"]
        ]
    if said.get("attention"):
        return [
            f"{each['title']}: {each['detail']}" if each.get("detail") else str(each["title"])
            for each in said["attention"]
        ]
    if said.get("drift"):
        return [f"{each['kind']}: {each['about']}: {each['detail']}" for each in said["drift"]]
    return lines


def parse(text: str) -> dict[str, Any]:
    """The JSON object that *text* is, or an empty one."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def main() -> None:
    """Run the module."""
    spec = {
        "argv": {"type": "list", "elements": "str", "required": True},
        "chdir": {"type": "str", "default": ""},
        "codes": {"type": "list", "elements": "int", "default": [0]},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    argv = module.params["argv"]
    try:
        code, output, error = module.run_command(
            argv, handle_exceptions=False, cwd=module.params["chdir"] or None, ignore_invalid_cwd=False
        )
    except OSError as err:
        module.fail_json(msg=f"{argv[0]}: {err.strerror}", code=127)
    said = parse(output)
    lines = [line.rstrip() for line in ("" if said else output).splitlines() + error.splitlines() if line.strip()]
    if code in module.params["codes"]:
        module.exit_json(changed=said.get("changed") is True, code=code, said=said, output=output, lines=lines)
    why = reason(said, lines) or [f"exit code {code}"]
    if len(why) > _LINES:
        why[_LINES:] = [f"and {len(why) - _LINES} more lines: {shlex.join(argv)}"]
    module.fail_json(msg="\n".join(why), code=code)


if __name__ == "__main__":
    main()
