"""What a finder is: a function that yields findings of the codes that it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dnsteer.lint.context import LintContext
from dnsteer.lint.finding import Code, LintFinding
from dnsteer.spec.errors import DefinitionError

Find = Callable[[LintContext], Iterator[LintFinding]]


@dataclass(frozen=True)
class Finder:
    """A finder function and the codes that it may yield. *hardware*: it runs only if the profile has hardware."""

    find: Find
    codes: tuple[Code, ...]
    hardware: bool = False

    @property
    def file(self) -> str:
        """The module that has the function."""
        return f"{self.find.__module__.replace('.', '/')}.py"

    def __call__(self, context: LintContext) -> Iterator[LintFinding]:
        """Yield the function's findings. Raises DefinitionError for a finding with a code that it does not declare."""
        if self.hardware and not context.profile.hardware:
            return
        for finding in self.find(context):
            if finding.code not in self.codes:
                raise DefinitionError(
                    f"{self.file}: {self.find.__name__} yields {finding.code.code}, which its @finder(...) does not name"
                )
            yield finding


def finder(*codes: Code, hardware: bool = False) -> Callable[[Find], Finder]:
    """Declare a function as the finder of *codes*; lint/run.py lists all finders. Raises DefinitionError without codes."""
    for code in codes or (None,):
        if not isinstance(code, Code):
            what = f"found {getattr(code, '__name__', code)!r}" if codes else "found none"
            raise DefinitionError(f"a finder is declared with its codes, as @finder(CODE): {what}")
    return lambda find: Finder(find, codes, hardware)
