"""From a file to a spec that can work, or to all of what is wrong with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from dnsteer.spec.bringup_rules import check_bringup
from dnsteer.spec.conflicts import check_addresses
from dnsteer.spec.document import Document, read_document
from dnsteer.spec.doubts import doubts
from dnsteer.spec.errors import MAX_FINDINGS, Finding, SpecError
from dnsteer.spec.extension_rules import check_extension
from dnsteer.spec.model import Spec
from dnsteer.spec.rules import check_pools, check_vips
from dnsteer.spec.scope import Scope
from dnsteer.spec.services import check_services
from dnsteer.spec.structure import findings_of, show_value
from dnsteer.spec.switch_rules import check_switch

_ABOUT: dict[str, Any] = {"lint": True, "switch": {"hardware", "link_gbps", "bringup"}}
"""What tells about a spec and changes nothing of what it makes."""
_CHECKS = (check_switch, check_bringup, check_pools, check_vips, check_addresses, check_services, check_extension)


@dataclass(frozen=True)
class Loaded:
    """A valid spec, the document it came from (for line numbers) and its warnings."""

    spec: Spec
    document: Document
    warnings: tuple[Finding, ...]

    @property
    def file(self) -> str:
        """The file's name as it was given."""
        return self.document.file

    @cached_property
    def digest(self) -> str:
        """What tells this spec from others, see `digest`; reckoned once."""
        return digest(self.spec)


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
    findings = list(islice((finding for check in _CHECKS for finding in check(scope)), MAX_FINDINGS + 1))
    if findings:
        raise SpecError(doc.file, findings)
    return Loaded(spec, doc, tuple(doubts(scope)))


def digest(spec: Spec) -> str:
    """SHA-256 (hex) of what the spec says about forwarding.

    Comments, format, the spelling of addresses and the order of an object's keys do not change it. The order in which
    objects are listed does (it is the order of the flows).
    """
    return hashlib.sha256(spec.model_dump_json(exclude=_ABOUT).encode()).hexdigest()
