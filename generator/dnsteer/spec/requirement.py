# SPDX-License-Identifier: Apache-2.0
"""Whether this version of dnsteer is one that a spec asks for (`requires`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from dnsteer.spec.errors import show_value

if TYPE_CHECKING:
    from packaging.specifiers import Specifier
    from packaging.version import Version

_EXPECTED = 'versions of dnsteer in quotes, such as ">=0.2" or ">=0.2, <1"'
_OPERATORS = (">=", "<=", "==", "!=", "~=", ">", "<")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)*")
_MAX_CHARACTERS = 200


class UnmetRequirement(NamedTuple):
    """What a finding says of a `requires` that is malformed, or that this version does not satisfy."""

    found: str
    expected: str
    hint: str


def check_requirement(value: Any, version: str) -> UnmetRequirement | None:
    """Compare *value*, what a spec has for `requires`, with this program's *version*; None where the version satisfies it.

    *value* is version specifiers of PEP 440, with commas between them, which must all be satisfied: `>=`, `>`, `<=`, `<`,
    `==`, `!=` and `~=`. A pre-release or development version counts as the release that it leads to, since it has the keys
    of that: 0.2.0rc1 satisfies `>=0.2` and not `<0.2`. A specifier that names a pre-release itself (`>=0.2rc2`) is compared
    exactly. What follows a `+` in *version* does not count.
    """
    if not isinstance(value, str) or not value.strip():
        return UnmetRequirement(show_value(value), _EXPECTED, _advice_on_spelling(value))
    if len(value) > _MAX_CHARACTERS:
        return UnmetRequirement(f"{len(value):,} characters", _EXPECTED, f"write at most {_MAX_CHARACTERS}")
    from packaging.specifiers import InvalidSpecifier, Specifier  # here: few specs have the key, and it takes 17 ms
    from packaging.version import Version

    specifiers = []
    for part in value.split(","):
        text = part.strip()
        try:
            specifiers.append(Specifier(text))
            if text.startswith("==="):  # which compares texts, for versions that PEP 440 does not know
                raise InvalidSpecifier(text)
        except InvalidSpecifier:
            whole = show_value(value)
            if not text:
                return UnmetRequirement(f"{whole}, with nothing before or after a comma", _EXPECTED, "remove the comma")
            found = whole if text == value.strip() else f"{show_value(text)} in {whole}"
            return UnmetRequirement(found, _EXPECTED, _advice_on_spelling(text))
    running = Version(version)
    unmet = next((specifier for specifier in specifiers if not _is_satisfied(specifier, running)), None)
    if unmet is None:
        return None
    return UnmetRequirement(f"dnsteer {version}", f"dnsteer {value.strip()}", _advice_on_version(unmet, running))


def _is_satisfied(specifier: Specifier, running: Version) -> bool:
    named = _named_version(specifier)
    counts_as = running.base_version if running.is_prerelease and not named.is_prerelease else running
    return specifier.contains(counts_as, prereleases=True)


def _named_version(specifier: Specifier) -> Version:
    from packaging.version import Version

    return Version(specifier.version.removesuffix(".*"))


def _advice_on_spelling(value: Any) -> str:
    """What to write instead of a value that is no specifier."""
    if isinstance(value, list):
        return "write one text, with commas between the versions"
    text = "" if value is None else str(value).strip()
    if _NUMBER.fullmatch(text):
        return f'for this version or a later one, write: requires: ">={text}"'
    if text.startswith("~="):
        return "~= needs a version of two numbers or more, such as ~=0.2"
    if text:
        return f"each version has one of {' '.join(_OPERATORS)} before it"
    return 'write the version that brought the newest key of the spec, such as ">=0.2"'


def _advice_on_version(unmet: Specifier, running: Version) -> str:
    if running < _named_version(unmet) or unmet.operator in (">", ">="):
        return "upgrade dnsteer on this machine, or remove `requires` and the keys that need it"
    return "use a dnsteer that the spec allows, or check the spec by this one and change `requires`"
