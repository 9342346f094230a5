"""Programs that preloaded.py forks: what loads each of them, and what runs it then."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
import zipimport
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path

from tests import preloaded


def _command() -> None:
    from dnsteer.cli.main import run

    if sys.argv[0] == "-c":
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(sys.argv.pop(1), "<string>", "exec"), main.__dict__)
    else:
        run()


def _load_command() -> Callable[[], None]:
    import ovs.jsonrpc

    import dnsteer
    from dnsteer.checks.load import check_document
    from dnsteer.console import content
    from dnsteer.plan.build import build_plan
    from dnsteer.render.flows import groups_of, lines_of
    from dnsteer.render.template_rows import check_own_template_rows
    from dnsteer.spec.document import parse_document
    from dnsteer.switch import tools
    from tests import fast_json
    from tests.loaded_programs import loaded_subprocess

    for module in pkgutil.walk_packages(dnsteer.__path__, "dnsteer."):
        if not module.name.startswith(("dnsteer.capacity", "dnsteer.cli.capacity", "dnsteer.__main__")):
            importlib.import_module(module.name)
    for spec in (preloaded.ROOT / "examples" / "authoritative.yaml", preloaded.ROOT / "examples" / "quickstart.yaml"):
        plan = build_plan(check_document(parse_document(str(spec), spec.read_text())))
        lines_of(plan)  # which compiles the templates, as the check above has built the models
        groups_of(plan)
    check_own_template_rows()
    ovs.jsonrpc.ovs = fast_json.package()
    tools.subprocess = loaded_subprocess  # type: ignore[assignment]
    pages = content._templates()
    for page in pages.list_templates():
        pages.get_template(page)
    return _command


def _load_ansible() -> Callable[[], None]:
    from ansible.cli.playbook import main
    from ansible.executor import playbook_executor  # noqa: F401
    from ansible.plugins import loader

    loader.init_plugin_loader()
    loader.init_plugin_loader = lambda *_: None
    importlib.import_module("ansible_collections.ansible.builtin")
    for name in ("host_list", "script", "auto", "yaml", "ini", "toml"):
        assert loader.inventory_loader.get(name, class_only=True), name
    for functions in (loader.filter_loader, loader.test_loader):
        list(functions.all())

    modules = str(preloaded.client("module"))

    def run() -> None:
        sys.executable = modules  # what modules for the controller itself are run by
        sys.exit(main(sys.argv))

    return run


_EACH_MODULE = (
    "concurrent.futures.thread", "encodings.cp437", "filecmp", "glob", "multiprocessing.pool", "ssl", "zipfile",
    "ansible.module_utils._internal._ansiballz._loader",
    "ansible.module_utils._internal._json._profiles._module_legacy_c2m",
    "ansible.module_utils._internal._json._profiles._module_legacy_m2c",
)  # fmt: skip
"""What modules import when they run."""


def _load_modules() -> Callable[[], None]:
    import ansible.module_utils.basic
    import ansible.module_utils.facts.ansible_collector
    import ansible.module_utils.facts.default_collectors

    for name in _EACH_MODULE:
        importlib.import_module(name)
    _take_compiled(Path(ansible.module_utils.basic.__file__).parents[1])
    # Packages are forgotten, so that they are found in a module's archive, which has more in them.
    for name in [n for n, m in sys.modules.items() if n.partition(".")[0] == "ansible" and hasattr(m, "__path__")]:
        del sys.modules[name]
    return _module


def _take_compiled(folder: Path) -> None:
    """Have modules of archives, which are sources, come from the bytecode of the same files below *folder*.

    To compile them takes two thirds of the time of a module.
    """
    compiled = zipimport._compile_source  # type: ignore[attr-defined]
    files = {file.read_bytes(): file for part in ("modules", "module_utils") for file in (folder / part).rglob("*.py")}

    def code(name: str, source: bytes) -> types.CodeType:
        file = files.get(source) if source else None
        return compiled(name, source) if file is None else SourceFileLoader(name, str(file)).get_code(name)

    zipimport._compile_source = code  # type: ignore[attr-defined]


def _module() -> None:
    """Run the module that is given as standard input."""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), main.__dict__)


PROGRAMS: Mapping[str, Callable[[], Callable[[], None]]] = {
    "ansible-playbook": _load_ansible, "dnsteer": _load_command, "module": _load_modules,
}  # fmt: skip
"""What loads a program, and returns what runs it."""


if __name__ == "__main__":
    preloaded.serve(PROGRAMS[sys.argv[1]](), sys.argv[2])
