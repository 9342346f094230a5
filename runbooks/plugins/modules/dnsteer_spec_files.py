#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module: write the files of a spec into a folder of their own, all of them or none."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: dnsteer_spec_files
short_description: find the files that a spec is made of, and send them to the host
description:
  - Finds, on the controller, what the spec includes, the variables of its switch and those in C(vars_files).
  - With C(to) the host has them in that folder afterwards, below the folder that all of them are in, and nothing else is
    in it. The folder is replaced as a whole. For a spec that is one plain file there is no such folder afterwards.
author: dnsteer
version_added: 0.1.0
options:
  spec:
    description: The spec's own file on the controller.
    type: str
    required: true
  vars_files:
    description: Files of variables on the controller, as for C(dnsteer --vars).
    type: list
    elements: str
    default: []
  include_from:
    description: Folders on the controller, as for C(dnsteer --include-from).
    type: list
    elements: str
    default: []
  to:
    description: Folder on the host. Empty to send nothing, and not to ask the host.
    type: str
    default: ""
"""
EXAMPLES = """
- name: Send the spec
  dnsteer_spec_files:
    spec: "{{ inventory_dir }}/specs/{{ inventory_hostname }}.yaml"
    to: /etc/dnsteer/next-parts
"""
RETURN = """
plain:
  description: Whether it is one file without includes, variables and defaults.
  returned: success
  type: bool
here:
  description: Arguments of dnsteer on the controller, the spec first.
  returned: success
  type: list
  elements: str
there:
  description: Those on the host, in the folder C(to).
  returned: success
  type: list
  elements: str
files:
  description: The files on the controller.
  returned: success
  type: list
  elements: str
"""


def read_folder(folder: Path) -> dict[str, bytes] | None:
    """What the files in *folder* hold, by their names below it; None if it is not one with files alone."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            return None
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Make *folder* one with just these *files*, in place of what there was; without any there is none afterwards.

    Raises OSError.
    """
    for left in folder.parent.glob(f".{folder.name}.*"):  # of a run that was cut off
        shutil.rmtree(left)
    if not files:
        _remove(folder)
        return
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    for name, data in files.items():
        file = new / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o644)
    for below, _, _ in os.walk(new):
        os.chmod(below, 0o755)  # noqa: PTH101
    _remove(folder)
    new.rename(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main() -> None:
    """Run the module."""
    spec = {
        "to": {"type": "str", "required": True},
        "files": {"type": "dict", "required": True, "no_log": True},  # else the system's log has what they hold
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    folder = Path(module.params["to"])
    files = {name: base64.b64decode(data) for name, data in module.params["files"].items()}
    strange = [name for name in files if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]
    if strange:
        module.fail_json(msg=f"found {strange[0]}; expected names of files below {folder}")
    try:
        changed = (read_folder(folder) or {}) != files or (not files and os.path.lexists(folder))
        if changed and not module.check_mode:
            write_folder(folder, files)
    except OSError as error:
        module.fail_json(msg=f"{error.filename or folder}: {error.strerror}")
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
