# SPDX-License-Identifier: Apache-2.0
"""Action: find the files of a spec on the controller, and have the module of this name write them on the host."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

_MAX_SPEC_BYTES = 8 << 20
_MAX_PARTS = 1000
"""Most bytes and files of a spec, as dnsteer has them."""
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SpecFiles:
    """The files of a spec by their absolute paths, and the command line arguments that name them.

    *is_plain*: a single file that dnsteer reads as it is. *problems* are sentences about files that cannot be sent.
    """

    def __init__(self, main: Path, vars_files: Sequence[Path], include_from: Sequence[Path]) -> None:
        self.main, self.vars_files, self.include_from = main, vars_files, include_from
        self.is_plain = True
        self.files = {main: main.read_bytes()}
        self.problems: list[str] = []

    @property
    def root(self) -> Path:
        """The folder that all of them are in, so that their paths below it are the same on the host."""
        folders = [self.main.parent, *self.include_from, *(file.parent for file in (*self.files, *self.vars_files))]
        return Path(os.path.commonpath(folders))

    def arguments(self, root: Path | None = None) -> list[str]:
        """The spec and its options for dnsteer, with paths that are relative to *root*, or absolute."""

        def name(path: Path) -> str:
            return str(path.relative_to(root)) if root else str(path)

        options = [word for file in self.vars_files for word in ("--vars", name(file))]
        options += [word for folder in self.include_from for word in ("--include-from", name(folder))]
        return [name(self.main), *options]


def find_files(main: Path, vars_files: Sequence[Path] = (), include_from: Sequence[Path] = ()) -> SpecFiles:
    """Read the spec in *main*, and what it includes, with the variables of its switch and those in *vars_files*.

    All paths are absolute. What is not there, or is no YAML, is dnsteer's to say, which names the line. Raises OSError if
    *main* cannot be read.
    """
    found = SpecFiles(main, vars_files, include_from)
    keys = _top_level(found.files[main])
    if not vars_files and not _needs_more(keys, found.files[main]):
        return found
    found.is_plain = False
    roots = [_real(folder) for folder in (main.parent, *include_from)]
    names = [_switch_name(keys)]
    open_files = [(main, keys)]
    while open_files and len(found.files) <= _MAX_PARTS:
        by, keys = open_files.pop()
        for line, text in _include_entries(keys):
            for file in _named_files(main.parent, by, text):
                if file not in found.files and _take(found, file, f"{by}:{line}: include: {file}", roots):
                    below = _top_level(found.files[file])
                    names.append(_switch_name(below))
                    open_files.append((file, below))
    of_switch = {main.parent / "vars" / f"{name}.yaml" for name in names if _FILE_NAME.match(name)}
    for file in sorted({*of_switch, *vars_files} - found.files.keys()):
        _take(found, file, str(file), None)
    return found


def _take(found: SpecFiles, file: Path, said: str, roots: Sequence[Path] | None) -> bool:
    """Read a file, which must be in one of *roots* where some are given; whether there is one. *said* begins problems."""
    if roots is not None and not any(_real(file).is_relative_to(root) for root in roots):
        found.problems.append(
            f"{said} is outside the folder of the spec, {found.main.parent}: move it there, or add its folder to "
            "dnsteer_include_from"
        )
        return False
    try:
        mode = file.stat().st_mode
        kind = next((what for is_so, what in _KINDS if is_so(mode)), "")
        if kind:
            found.problems.append(f"{said} is {kind}; expected a file")
            return False
        with file.open("rb") as stream:
            data = stream.read(_MAX_SPEC_BYTES + 1)
    except FileNotFoundError:
        return False
    except OSError as error:
        found.problems.append(f"{said} cannot be read: {error.strerror}")
        return False
    if sum(map(len, found.files.values())) + len(data) > _MAX_SPEC_BYTES:
        found.problems.append(f"{said}: with it the spec has more than {_MAX_SPEC_BYTES >> 20} MiB; split it by switch")
        return False
    found.files[file] = data
    return True


def _top_level(data: bytes) -> dict[str, yaml.Node]:
    """The keys of a YAML file with what they have; none where it is not a mapping. Aliases are not followed."""
    if len(data) > _MAX_SPEC_BYTES:
        return {}
    try:
        node = yaml.compose(data.decode(), Loader=_LOADER)
    except (ValueError, yaml.YAMLError, RecursionError):
        return {}
    return _entries(node)


def _entries(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _needs_more(keys: dict[str, yaml.Node], data: bytes) -> bool:
    """Whether a spec is more than its file says by itself: it has includes, variables or defaults."""
    if not keys:
        return False
    if keys.keys() & {"include", "vars", "defaults"}:
        return True
    tokens = yaml.scan(data.decode(), Loader=_LOADER) if b"${" in data else ()
    return any(isinstance(token, yaml.ScalarToken) and "${" in token.value for token in tokens)


def _switch_name(keys: dict[str, yaml.Node]) -> str:
    name = _entries(keys.get("switch")).get("name")
    return name.value if isinstance(name, yaml.ScalarNode) else ""


def _include_entries(keys: dict[str, yaml.Node]) -> Iterator[tuple[int, str]]:
    """The entries of `include`, each with its line."""
    node = keys.get("include")
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for each in nodes:
        if isinstance(each, yaml.ScalarNode) and each.value:
            yield each.start_mark.line + 1, each.value


def _named_files(folder: Path, by: Path, text: str) -> list[Path]:
    """The files that an entry of the file *by* stands for, as dnsteer finds them from the spec's *folder*."""
    name = os.path.normpath(by.parent / text)
    if not has_magic(text):
        return [Path(name)]
    names = glob(os.path.relpath(name, folder), root_dir=folder)  # noqa: PTH207 - as dnsteer itself does
    return [Path(os.path.normpath(folder / found)) for found in sorted(names)]


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Looks at the files of a spec, and sends them where `to` is given."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the action. Raises AnsibleActionFail, which names the file, for what cannot be read or sent."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            {
                "spec": {"type": "str", "required": True},
                "vars_files": {"type": "list", "elements": "str", "default": []},
                "include_from": {"type": "list", "elements": "str", "default": []},
                "to": {"type": "str", "default": ""},
            }
        )
        found = self._find(given)
        root = found.root
        result.update(
            changed=False,
            plain=found.is_plain,
            here=found.arguments(),
            there=found.arguments(root),
            files=sorted(str(file) for file in found.files),
        )
        if given["to"]:
            if found.problems:
                raise AnsibleActionFail("\n".join(found.problems))
            files = {} if found.is_plain else {str(f.relative_to(root)): d for f, d in found.files.items()}
            encoded = {name: base64.b64encode(data).decode("ascii") for name, data in files.items()}
            arguments = {"to": given["to"], "files": encoded}
            result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result

    @staticmethod
    def _find(given: dict[str, Any]) -> SpecFiles:
        """The files, by paths that are relative to where ansible-playbook was started, or absolute."""
        main = _absolute(given["spec"])
        vars_files, include_from = (list(map(_absolute, given[name])) for name in ("vars_files", "include_from"))
        try:
            missing = _missing(main, vars_files, include_from)
            if missing:
                raise AnsibleActionFail(missing)
            return find_files(main, vars_files, include_from)
        except OSError as error:
            raise AnsibleActionFail(f"{error.filename}: {error.strerror}") from error


def _missing(main: Path, vars_files: Sequence[Path], include_from: Sequence[Path]) -> str:
    """What a variable of the playbook names and is not there; empty if all is."""
    if not main.is_file():
        return f"there is no file {main} on the controller; set dnsteer_spec to one"
    for file in vars_files:
        if not file.is_file():
            return f"there is no file {file} on the controller; set dnsteer_vars_files to files"
    for folder in include_from:
        if not folder.is_dir():
            return f"there is no folder {folder} on the controller; set dnsteer_include_from to folders"
    return ""


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - includes are relative to a link, not to its target
