"""What the builders of the plan share."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.plan.numbers import Category, cookie
from dnsteer.plan.objects import Plan
from dnsteer.plan.subject import Subject
from dnsteer.spec.errors import Path
from dnsteer.spec.load import Loaded
from dnsteer.spec.model.spec import Spec


@dataclass
class Context:
    """A spec, its lines, the numbers of its objects and the plan that grows."""

    loaded: Loaded
    spec: Spec
    plan: Plan
    ports: dict[str, int]
    pools: dict[str, int]
    vips: dict[str, int]
    backends: dict[str, int]

    def subject(self, category: Category, number: int, title: str, path: Path) -> Subject:
        """Register the subject of a cookie; the first title given for a cookie stands."""
        key = cookie(category, number)
        found = self.plan.subjects.get(key)
        if found is None:
            found = Subject(key, title, path, self.loaded.document.line(path))
            self.plan.subjects[key] = found
        return found
