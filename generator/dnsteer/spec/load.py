"""From a file to a spec that can work, or to all of what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from dnsteer.spec import derived
from dnsteer.spec.checks.addresses import check_addresses
from dnsteer.spec.checks.bringup import check_bringup
from dnsteer.spec.checks.extension import check_extension
from dnsteer.spec.checks.pools_and_vips import check_pools, check_vips
from dnsteer.spec.checks.scope import Scope
from dnsteer.spec.checks.services import check_services
from dnsteer.spec.checks.switch import check_switch
from dnsteer.spec.checks.warnings import doubts
from dnsteer.spec.document import Document, read_document
from dnsteer.spec.errors import MAX_FINDINGS, Finding, SpecError
from dnsteer.spec.model.spec import Selection, Spec
from dnsteer.spec.schema_errors import findings_of, show_value

_ABOUT: dict[str, Any] = {"lint": True, "switch": {"hardware", "link_gbps", "bringup"}}
"""What tells about a spec and changes nothing of what it makes."""
Check = Callable[[Scope], Iterator[Finding]]
_UNTOLD = 1024
_CHECKS: Sequence[Check] = (
    check_switch, check_bringup, check_pools, check_vips, check_addresses, check_services, check_extension
)  # fmt: skip
_BY_SLOTS: Sequence[Check] = (check_pools, check_extension)
"""What looks at the number of slots."""


@dataclass(frozen=True)
class Loaded:
    """A valid spec, the document it came from (for line numbers) and its warnings.

    *kept* are the numbers of slots, by pool, that the document does not name and that are not those of a new pool.
    """

    spec: Spec
    document: Document
    warnings: tuple[Finding, ...]
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file's name as it was given."""
        return self.document.file

    @cached_property
    def digest(self) -> str:
        """What tells this spec from others, see `digest`; reckoned once."""
        return digest(self.spec, self.kept)


def load_spec(file: FilePath) -> Loaded:
    """Read *file*. Raises SpecError with all findings of the first phase that fails: syntax, structure, meaning."""
    return check_document(read_document(file))


def check_document(doc: Document) -> Loaded:
    """Check a parsed document. Raises SpecError as load_spec does."""
    if not isinstance(doc.value, dict):
        expected = "a mapping with the keys apiVersion, switch, pools and vips"
        hint = "start from examples/quickstart.yaml"
        raise SpecError(doc.file, [Finding(doc.line(()), (), show_value(doc.value), expected, hint)])
    try:
        spec = Spec.model_validate(doc.value)
    except ValidationError as err:
        raise SpecError(doc.file, findings_of(err, doc), err.error_count()) from None
    scope = Scope(spec, doc)
    _refuse(scope, _CHECKS)
    return Loaded(spec, doc, tuple(doubts(scope)))


def with_slots(spec: Spec, slots: Mapping[str, int | None]) -> Spec:
    """The same with other numbers of slots, by pool."""
    if not slots:
        return spec
    pools = {name: pool.model_copy(update={"slots": slots.get(name, pool.slots)}) for name, pool in spec.pools.items()}
    return spec.model_copy(update={"pools": pools})


def check_slots(loaded: Loaded, slots: Mapping[str, int]) -> Loaded:
    """The same with other numbers of slots, by pool. Raises SpecError when it does not work with these."""
    spec = with_slots(loaded.spec, slots)
    _refuse(Scope(spec, loaded.document), _BY_SLOTS)
    return Loaded(spec, loaded.document, loaded.warnings, slots)


def _refuse(scope: Scope, checks: Sequence[Check]) -> None:
    findings = list(islice((finding for check in checks for finding in check(scope)), MAX_FINDINGS + 1))
    if findings:
        raise SpecError(scope.doc.file, findings)


def digest(spec: Spec, kept: Mapping[str, int] = MappingProxyType({})) -> str:
    """SHA-256 (hex) of what the spec says about forwarding, with the numbers of slots that pools have kept.

    Comments, format, the spelling of addresses and the order of an object's keys do not change it. The order in which
    objects are listed does (it is the order of the flows).
    """
    numbers: dict[str, int | None] = {}
    for name, pool in spec.pools.items():
        if (pool.slots is None and pool.selection is not Selection.DP_HASH) or name in kept:
            number = kept.get(name) or derived.slot_count(spec, pool)
            # When it was what every pool got, it was not told; what was applied then is to have the same digest today.
            numbers[name] = None if number == _UNTOLD else number
    about = _ABOUT
    if spec.switch.vlans == "untagged":  # so the digest is what it was before the key was there
        about = {**_ABOUT, "switch": {*_ABOUT["switch"], "vlans"}}
    return hashlib.sha256(with_slots(spec, numbers).model_dump_json(exclude=about).encode()).hexdigest()
