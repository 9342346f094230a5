# SPDX-License-Identifier: Apache-2.0
"""`requires` of a spec: which versions of dnsteer satisfy it, and what is said where it is malformed or not satisfied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from dnsteer import __version__
from dnsteer.spec.errors import Finding, SpecError
from dnsteer.spec.requirement import UnmetRequirement, check_requirement
from dnsteer.spec.yaml_reader import parse_yaml

_EXPECTED = 'versions of dnsteer in quotes, such as ">=0.2" or ">=0.2, <1"'
_UPGRADE = "upgrade dnsteer on this machine, or remove `requires` and the keys that need it"
_OTHER = "use a dnsteer that the spec allows, or check the spec by this one and change `requires`"
_NO_OPERATOR = "each version has one of >= <= == != ~= > < before it"


@pytest.mark.parametrize(
    ("text", "version", "satisfied"),
    [
        (">=0.2", "0.1.0", False),
        (">=0.2", "0.2", True),
        (">0.2", "0.2.0", False),
        (">0.2", "0.2.1", True),
        ("<=0.2", "0.2.0", True),
        ("<0.2", "0.2.0", False),
        ("==0.2", "0.2.0", True),
        ("==0.2.*", "0.2.7", True),
        ("!=0.2.3", "0.2.3", False),
        ("~=0.2", "0.9", True),
        ("~=0.2.1", "0.3", False),
        (">=0.2,<0.4", "0.3.1", True),
        (" >= 0.2 , < 0.3 ", "0.3.1", False),
        # a pre-release has the keys of its release
        (">=0.2", "0.2.0rc1", True),
        (">=0.2", "0.2.dev3", True),
        ("<0.2", "0.2.0rc1", False),
        (">=0.2", "0.1.9rc1", False),
        ("<0.3", "0.2.0a1", True),
        # one that a spec names is told from others
        (">=0.2rc2", "0.2.0rc1", False),
        (">=0.2rc2", "0.2.0rc3", True),
        (">=0.2.0rc2", "0.2.0", True),
        (">=0.2", "0.2.0+site5", True),
        ("==0.2", "0.2.0+site5", True),
        (">=0.2.post1", "0.2.post1", True),
    ],
)
def test_which_versions_satisfy_a_spec(text: str, version: str, satisfied: bool) -> None:
    assert (check_requirement(text, version) is None) == satisfied


@pytest.mark.parametrize(
    ("text", "version", "hint"),
    [
        (">=0.2", "0.1.0", _UPGRADE),
        (">0.1", "0.1.0", _UPGRADE),
        ("~=0.2.1", "0.1.0", _UPGRADE),
        ("==0.2.*", "0.1.0", _UPGRADE),
        ("<0.2", "0.3.0", _OTHER),
        ("!=0.3.0", "0.3.0", _OTHER),
        (">=0.1,==0.2", "0.3.0", _OTHER),
    ],
)
def test_a_version_that_does_not_satisfy_a_spec_is_named_with_what_to_do(text: str, version: str, hint: str) -> None:
    assert check_requirement(text, version) == (f"dnsteer {version}", f"dnsteer {text}", hint)


@pytest.mark.parametrize(
    ("value", "found", "hint"),
    [
        ("0.2", '"0.2"', 'for this version or a later one, write: requires: ">=0.2"'),  # unquoted in YAML
        (1, "1", 'for this version or a later one, write: requires: ">=1"'),
        (">=0.1, 0.2", '"0.2" in ">=0.1, 0.2"', 'for this version or a later one, write: requires: ">=0.2"'),
        (None, "nothing", 'write the version that brought the newest key of the spec, such as ">=0.2"'),
        ("", '""', 'write the version that brought the newest key of the spec, such as ">=0.2"'),
        (" ", '" "', 'write the version that brought the newest key of the spec, such as ">=0.2"'),
        (">=0.2,", '">=0.2,", with nothing before or after a comma', "remove the comma"),
        ("=>0.2", '"=>0.2"', _NO_OPERATOR),
        ("^0.2", '"^0.2"', _NO_OPERATOR),
        ("===0.2", '"===0.2"', _NO_OPERATOR),
        ("latest", '"latest"', _NO_OPERATOR),
        (True, "true", _NO_OPERATOR),
        ("~=1", '"~=1"', "~= needs a version of two numbers or more, such as ~=0.2"),
        ([">=0.2"], "a list", "write one text, with commas between the versions"),
        ({"dnsteer": ">=0.2"}, "a mapping", _NO_OPERATOR),
        (">=0.2," * 100, "600 characters", "write at most 200"),
    ],
)
def test_what_is_no_requirement_is_refused_with_what_to_write(value: Any, found: str, hint: str) -> None:
    assert check_requirement(value, "0.1.0") == UnmetRequirement(found, _EXPECTED, hint)


def test_the_fields_are_those_of_a_finding() -> None:
    unmet = check_requirement(">=99", __version__)
    assert unmet is not None
    assert Finding(2, ("requires",), *unmet).text("a.yaml") == (
        f"a.yaml:2: $.requires: found dnsteer {__version__}; expected dnsteer >=99\n    hint: {_UPGRADE}"
    )


def test_a_requirement_without_quotes_is_told_to_have_some() -> None:
    """YAML takes `>` for the beginning of a text of several lines."""
    with pytest.raises(SpecError) as caught:
        parse_yaml("a.yaml", "apiVersion: dnsteer/v1\nrequires: >=0.2\n")
    assert caught.value.findings == [
        Finding(2, (), 'a value that begins with ">" or "|"', "well-formed YAML", "put quotes around it")
    ]


_RELEASES = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))


@given(_RELEASES, _RELEASES, st.sampled_from(["", "a1", "rc2", ".dev3", "+site"]))
def test_operators_order_releases_as_numbers(running: str, named: str, suffix: str) -> None:
    """Of a running pre-release its release counts, so that the suffix makes no difference."""
    a, b = Version(running), Version(named)
    by_operator = {">=": a >= b, ">": a > b, "<=": a <= b, "<": a < b, "==": a == b, "!=": a != b}
    for operator, expected in by_operator.items():
        assert (check_requirement(f"{operator}{named}", running + suffix) is None) == expected


@given(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()),
        st.text("<>=!~,. 0123456789ab*+-"),
    )
)  # fmt: skip
def test_any_value_is_satisfied_or_refused_with_all_three_parts(value: Any) -> None:
    unmet = check_requirement(value, "0.1.0")
    assert unmet is None or all(unmet)
