"""What checks share: the spec under check, and the document that gives its lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, Path, show_path
from dnsteer.spec.model.spec import Spec


@dataclass
class Conflict:
    """Two entries that conflict: the paths of the later and the earlier one, and the values that they share."""

    path: Path
    earlier: Path
    shared: list[str] = field(default_factory=list)

    def shown(self) -> str:
        """The shared values, shortened."""
        shared = list(dict.fromkeys(self.shared))
        return ", ".join(shared[:4]) + (f" and {len(shared) - 4} more" if len(shared) > 4 else "")


@dataclass(frozen=True)
class Scope:
    """A well-formed spec and its document."""

    spec: Spec
    doc: Document

    def finding(self, path: Path, found: str, expected: str, hint: str = "", kind: str = "") -> Finding:
        """A finding at *path*, with its line."""
        return Finding(self.doc.line(path), self.doc.written(path), found, expected, hint, kind)

    def where(self, path: Path) -> str:
        """Point to another place of the document."""
        return f"line {self.doc.line(path)}, {show_path(self.doc.written(path))}"
