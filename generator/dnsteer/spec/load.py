"""From a file to a spec that can work, or to all of what is wrong with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path as FilePath

from pydantic import ValidationError

from dnsteer.spec.conflicts import conflicts
from dnsteer.spec.document import Document, read_document
from dnsteer.spec.errors import Finding, SpecError
from dnsteer.spec.model import Spec
from dnsteer.spec.rules import Rules, warnings
from dnsteer.spec.structure import findings_of, show_value


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


def load_spec(file: FilePath) -> Loaded:
    """Read *file*. Raises SpecError with all findings of the first phase that fails: syntax, structure, meaning."""
    return check_document(read_document(file))


def check_document(doc: Document) -> Loaded:
    """Check a parsed document. Raises SpecError as load_spec does."""
    if not isinstance(doc.value, dict):
        raise SpecError(doc.file, [Finding(1, (), show_value(doc.value), "a mapping with apiVersion, switch, pools, vips")])
    try:
        spec = Spec.model_validate(doc.value)
    except ValidationError as err:
        raise SpecError(doc.file, findings_of(err, doc)) from None
    rules = Rules(spec, doc)
    findings = [*rules.check(), *conflicts(rules)]
    if findings:
        raise SpecError(doc.file, findings)
    return Loaded(spec, doc, tuple(warnings(spec, doc)))


def digest(spec: Spec) -> str:
    """SHA-256 (hex) of what the spec says: comments, key order inside objects and spelling do not change it."""
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()
