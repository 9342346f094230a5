# SPDX-License-Identifier: Apache-2.0
"""The types of what templates name: rows, plan and mask policy, followed through loops, assignments, filters and macros.

A template is rendered for one spec, which may not lead to each of its lines; here all of them are read.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_args, get_origin

import jinja2
from jinja2 import nodes
from jinja2.runtime import LoopContext

from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.mask_policy import MaskPolicy
from dnsteer.plan.plan import Plan
from dnsteer.render.templates import environment, resolve, template_source, templates_dir, unwildcard
from dnsteer.spec.errors import near
from dnsteer.tables.order import TABLES
from dnsteer.tables.table import Table, TemplateError

UNKNOWN: Any = object()
"""The type of a value that is not followed: any field of it is accepted."""
_SAME = frozenset(["selectattr", "rejectattr", "sort", "unique", "list", "select", "reject"])
"""Filters that yield elements of what they are given."""
_BY_NAME = {"selectattr": 0, "rejectattr": 0, "groupby": 0, "map": None, "sort": None, "unique": None, "sum": None}
"""Filters that are given the name of a field, and the place of that argument; None: by keyword `attribute` only."""

Scope = dict[str, Any]


class TemplateReader:
    """Reads the syntax tree of one template. *names* are the types of what it is given, *hidden* those of other modules."""

    def __init__(self, environment: jinja2.Environment, names: Scope, hidden: Scope) -> None:
        self._environment, self._names, self._hidden = environment, names, hidden
        self._macros: dict[str, nodes.Macro] = {}
        self.used: set[str] = set()
        """Names that were given and are read."""
        self.mistakes: list[tuple[int, str]] = []
        """Line and text of each mistake."""

    def read(self, tree: nodes.Template) -> None:
        """Read a template."""
        self._macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
        self._all(tree.body, dict(self._names))

    def _all(self, body: list[Any], scope: Scope) -> None:
        for node in body:
            self._statement(node, scope)

    def _statement(self, node: nodes.Node, scope: Scope) -> None:
        if isinstance(node, nodes.For):
            inner = {**scope, "loop": LoopContext}
            self._bind(node.target, _element(self._type(node.iter, scope)), inner)
            if node.test is not None:
                self._type(node.test, inner)
            self._all(node.body, inner)
            self._all(node.else_, scope)
        elif isinstance(node, nodes.Assign):
            self._bind(node.target, self._type(node.node, scope), scope)
        elif isinstance(node, nodes.If):
            self._type(node.test, scope)
            self._all([*node.body, *node.elif_, *node.else_], scope)
        elif isinstance(node, nodes.Macro):
            pass  # read where it is called, with the types of its arguments
        elif isinstance(node, nodes.Expr):
            self._type(node, scope)
        else:
            self._all(list(node.iter_child_nodes()), scope)

    def _bind(self, target: nodes.Node, kind: Any, scope: Scope) -> None:
        if isinstance(target, nodes.Name):
            scope[target.name] = kind
        elif isinstance(target, nodes.Tuple):
            parts = get_args(kind) if get_origin(kind) is tuple else ()
            fits = len(parts) == len(target.items) and Ellipsis not in parts
            if parts and Ellipsis not in parts and not fits:
                self.mistakes.append((target.lineno, f"{len(target.items)} names for {len(parts)} values"))
            for i, item in enumerate(target.items):
                self._bind(item, parts[i] if fits else UNKNOWN, scope)

    def _type(self, node: nodes.Node, scope: Scope) -> Any:
        """Return the type of an expression, and note the mistakes in it."""
        if isinstance(node, nodes.Name):
            return self._name(node, scope)
        if isinstance(node, nodes.Getattr):
            return self._field(self._type(node.node, scope), node.attr, node.lineno)
        if isinstance(node, nodes.Filter):
            return self._filtered(node, scope)
        if isinstance(node, nodes.Call):
            return self._called(node, scope)
        if isinstance(node, nodes.Test) and node.name not in self._environment.tests:
            self._mistake(node.lineno, f"no test {node.name}", node.name, self._environment.tests)
        children = [self._type(child, scope) for child in node.iter_child_nodes()]
        return _element(children[0], by_key=True) if isinstance(node, nodes.Getitem) else UNKNOWN

    def _name(self, node: nodes.Name, scope: Scope) -> Any:
        if node.name in scope:
            if node.name in self._names:
                self.used.add(node.name)
            return scope[node.name]
        if node.name not in self._environment.globals and node.name not in self._macros:
            self._mistake(node.lineno, f"nothing is called {node.name} here", node.name, scope)
        return UNKNOWN

    def _filtered(self, node: nodes.Filter, scope: Scope) -> Any:
        given = self._type(node.node, scope) if node.node is not None else UNKNOWN
        for child in [*node.args, *(pair.value for pair in node.kwargs)]:
            self._type(child, scope)
        if node.name not in self._environment.filters:
            self._mistake(node.lineno, f"no filter {node.name}", node.name, self._environment.filters)
            return UNKNOWN
        field = UNKNOWN
        if node.name in _BY_NAME:
            place = _BY_NAME[node.name]
            named = [pair.value for pair in node.kwargs if pair.key == "attribute"]
            named += node.args[place : place + 1] if place is not None else []
            if named and isinstance(named[0], nodes.Const) and isinstance(named[0].value, str):
                field = _element(given)
                for part in named[0].value.split("."):
                    field = self._field(field, part, node.lineno)
        if node.name in _SAME:
            return given
        if node.name == "map":
            return list[field]  # type: ignore[valid-type]
        if node.name == "groupby":
            return list[tuple[field, given]]  # type: ignore[valid-type]
        function = inspect.unwrap(self._environment.filters[node.name])
        taken = self._readable(function, next(iter(inspect.get_annotations(function)), ""))
        found = _plain(given)
        if isinstance(taken, type) and isinstance(found, type) and not issubclass(found, taken):
            self.mistakes.append(
                (node.lineno, f"filter {node.name} takes {taken.__name__}, and is given {found.__name__}")
            )
        return self._readable(function, "return")

    def _called(self, node: nodes.Call, scope: Scope) -> Any:
        given = [self._type(child, scope) for child in node.args]
        for pair in node.kwargs:
            self._type(pair.value, scope)
        macro = self._macros.get(node.node.name) if isinstance(node.node, nodes.Name) else None
        if macro is None:
            self._type(node.node, scope)
            if isinstance(node.node, nodes.Name) and node.node.name == "unwildcard":
                self._unwildcarded(node)
            return UNKNOWN
        names = [arg.name for arg in macro.args]
        self._all(macro.body, {**self._names, **dict.fromkeys(names, UNKNOWN), **dict(zip(names, given, strict=False))})
        return UNKNOWN

    def _unwildcarded(self, node: nodes.Call) -> None:
        for argument in node.args:
            if isinstance(argument, nodes.Const):
                try:
                    unwildcard(argument.value)
                except TemplateError as err:
                    self.mistakes.append((argument.lineno, str(err)))

    def _field(self, kind: Any, name: str, line: int) -> Any:
        """Return the type of a field, or UNKNOWN, with a mistake if there is none of the name."""
        if isinstance(kind, types.UnionType) or get_origin(kind) is typing.Union:
            parts = [part for part in get_args(kind) if part is not types.NoneType]
            return self._field(parts[0], name, line) if len(parts) == 1 else UNKNOWN
        owner = get_origin(kind) or kind
        if not isinstance(owner, type) or owner is object:
            return UNKNOWN
        known = {n for n in dir(owner) if not n.startswith("_")}
        known.update(n for base in owner.__mro__ for n in inspect.get_annotations(base) if not n.startswith("_"))
        if issubclass(owner, tuple):  # a row: its fields, and not what any tuple can do
            known -= {"count", "index"} - set(getattr(owner, "_fields", ()))
        if name not in known:
            self._mistake(line, f"{owner.__name__} has no {name}", name, known)
            return UNKNOWN
        found = inspect.getattr_static(owner, name, None)
        if isinstance(found, property | cached_property):
            return self._readable(found.fget if isinstance(found, property) else found.func, "return")
        holder = next((base for base in owner.__mro__ if name in inspect.get_annotations(base)), None)
        try:
            return self._annotation(holder, name) if holder is not None else UNKNOWN
        except NameError as err:
            unknown = f"{owner.__name__}.{name} is a {err.name}, which only type checkers import"
            self.mistakes.append((line, f"{unknown}; import it for templates too"))
            return UNKNOWN

    def _readable(self, holder: Any, name: str) -> Any:
        """Return the type that an annotation names, UNKNOWN where only a type checker imports it."""
        try:
            return self._annotation(holder, name)
        except NameError:
            return UNKNOWN

    def _annotation(self, holder: Any, name: str) -> Any:
        """Return the type that an annotation names. Raises NameError where only a type checker imports it."""
        found = getattr(holder, "__annotations__", {}).get(name, UNKNOWN)
        found = found.__forward_arg__ if isinstance(found, typing.ForwardRef) else found  # of a NamedTuple
        if isinstance(found, str):
            module = sys.modules.get(holder.__module__)
            found = eval(found, {**self._hidden, **vars(module)} if module else {})  # of this package's own code
        return UNKNOWN if found is Any else found

    def _mistake(self, line: int, what: str, name: str, known: Any) -> None:
        found = line, f"{what}; {near(name, sorted(known))}"
        if found not in self.mistakes:
            self.mistakes.append(found)


def _plain(kind: Any) -> Any:
    """Return the bare type: without None, without the types of its elements, and str for a Literal of strings."""
    if isinstance(kind, types.UnionType) or get_origin(kind) is typing.Union:
        parts = [part for part in get_args(kind) if part is not types.NoneType]
        return _plain(parts[0]) if len(parts) == 1 else UNKNOWN
    if get_origin(kind) is typing.Literal:
        return type(get_args(kind)[0])
    return get_origin(kind) or kind


def _element(kind: Any, *, by_key: bool = False) -> Any:
    """Return the type of the elements of a list, tuple or iterator; *by_key* also of a mapping's values."""
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part is not Ellipsis]
    if not isinstance(origin, type):
        return UNKNOWN
    if issubclass(origin, Mapping):
        return parts[1] if by_key else parts[0]
    if issubclass(origin, list | Iterator):
        return parts[0]
    return parts[0] if issubclass(origin, tuple) and len(set(parts)) == 1 else UNKNOWN


ALWAYS_GIVEN: dict[str, Any] = {"table": Table, "plan": Plan, "masks": MaskPolicy, "file": str, "notes": bool}
"""What every template of flows is given besides its rows."""


@cache
def check_own_template_rows() -> None:
    """Check the templates that are used, once in a process. Raises TemplateError."""
    check_template_rows()


def check_template_rows(folder: Path | None = None, tables: tuple[Table, ...] = TABLES) -> None:
    """Raise TemplateError for what a template names and is not there, and for rows in `uses` that no template names."""
    folder = folder or templates_dir()
    alike: dict[tuple[object, ...], Table] = {}  # tables that share a template and have the same rows are checked once
    for table in tables:
        alike.setdefault((table.template_file, *table.uses.items()), table)
    for table in alike.values():
        for name in table.uses:
            if name in ALWAYS_GIVEN:
                raise TemplateError(
                    f"{table.file}: rows cannot be called {name!r}, which every template is given already"
                )
        rows = {name: list[kind] for name, kind in table.uses.items()}  # type: ignore[valid-type]
        if not (folder / table.template_file).exists():
            raise TemplateError(f"table {table.name} has no template {table.template_file}")
        reader = TemplateReader(environment(), {**ALWAYS_GIVEN, **rows}, {"ExtensionPlan": ExtensionPlan})
        for name in (table.template_file, f"groups/{table.name}.j2", f"meters/{table.name}.j2"):
            file = folder / name
            if file.exists():
                try:
                    source = resolve(template_source(folder, name, table), name, own=table)
                    reader.read(environment().tree(source))
                except jinja2.TemplateSyntaxError as err:
                    line = min(err.lineno, file.read_text().count("\n"))  # of the file, without what is put behind it
                    raise TemplateError(f"{name}:{line}: {err.message}") from None
                if reader.mistakes:
                    line, mistake = reader.mistakes[0]
                    raise TemplateError(f"{name}:{line}: {mistake}")
        for name, kind in table.uses.items():
            if name not in reader.used:
                raise TemplateError(
                    f"{table.file}: uses has {name!r} ({kind.__name__}), and {table.template_file} does not use it"
                )
