# SPDX-License-Identifier: Apache-2.0
"""Forwarding modes, a module each; no code elsewhere depends on which mode a VIP has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from dnsteer.modes.base import Mode, NamedVip
from dnsteer.modes.ct_nat import CtNat
from dnsteer.modes.dsr import Dsr
from dnsteer.modes.ipip import Ipip
from dnsteer.modes.nat import Nat
from dnsteer.modes.siit import Siit
from dnsteer.modes.tunnel import Geneve, Gre, Vxlan
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.model.spec import Forwarding

__all__ = ["BY_PROGRAM", "MODES", "Mode", "NamedVip", "by_word"]


def _file(mode: Mode) -> str:
    return f"{type(mode).__module__.replace('.', '/')}.py"


def by_word(modes: Iterable[Mode]) -> dict[Forwarding, Mode]:
    """Return the modes by their name in the spec. Raises DefinitionError for what a contributor forgot."""
    found: dict[Forwarding, Mode] = {}
    for mode in modes:
        _check_word(mode)
        if mode.word in found:
            raise DefinitionError(
                f"{_file(mode)}: {type(mode).__name__} has the word {mode.word.value}, which is that of "
                f"{type(found[mode.word]).__name__}"
            )
        found[mode.word] = mode
    for word in Forwarding:
        if word not in found:
            raise DefinitionError(
                f"forwarding {word.value} has no mode: write dnsteer/modes/{word.value}.py and add it to MODES in "
                "dnsteer/modes/__init__.py"
            )
    _check_unique("number", found.values())
    _check_unique("program", found.values())
    for mode in found.values():
        _check_rows(mode)
    return found


def _check_word(mode: Mode) -> None:
    if not isinstance(mode, Mode):
        raise DefinitionError(f"{_file(mode)}: {type(mode).__name__} in MODES is not derived from modes.base.Mode")
    if not hasattr(mode, "word"):
        raise DefinitionError(f"{_file(mode)}: forwarding mode {type(mode).__name__} has no word: its name in the spec")
    if not isinstance(mode.word, Forwarding):
        raise DefinitionError(
            f"{_file(mode)}: the word of forwarding mode {type(mode).__name__} is {mode.word!r}; expected a member of "
            "Forwarding (spec/model/spec.py)"
        )


def _check_unique(what: str, modes: Iterable[Mode]) -> None:
    """Refuse two modes with one value of the attribute *what*; a mode may have none."""
    used: dict[object, str] = {}
    for mode in modes:
        value = getattr(mode, what)
        if value and value in used:
            free = f"; {next(n for n in count(1) if n not in used)} is free" if what == "number" else ""
            raise DefinitionError(
                f"{_file(mode)}: forwarding modes {used[value]} and {mode.word.value} both have {what} {value!r}{free}"
            )
        used[value] = mode.word.value


def _check_rows(mode: Mode) -> None:
    """Refuse a mode whose number and rows do not agree, or that does not say what identifies a backend's packets."""
    if mode.number and type(mode).forward_rows is Mode.forward_rows:
        raise DefinitionError(
            f"{_file(mode)}: forwarding mode {mode.word.value} has number {mode.number}, so the switch "
            "forwards, but no forward_rows"
        )
    if not mode.number and type(mode).forward_rows is not Mode.forward_rows:
        raise DefinitionError(
            f"{_file(mode)}: forwarding mode {mode.word.value} has forward_rows, and no number for register mode"
        )
    if type(mode).backend_end is Mode.backend_end:
        raise DefinitionError(
            f"{_file(mode)}: forwarding mode {mode.word.value} has no backend_end: what identifies a backend's packets"
        )


MODES = by_word((Dsr(), Nat(), CtNat(), Ipip(), Siit(), Vxlan(), Geneve(), Gre()))
BY_PROGRAM: dict[str, Mode] = {mode.program: mode for mode in MODES.values() if mode.program}
"""The modes that the extension supports, by their name in its program."""
