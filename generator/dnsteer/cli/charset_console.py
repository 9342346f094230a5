"""The console of rich that all verbs print tables with."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement

from dnsteer.cli.charset import fit_charset


class CharsetConsole(Console):
    """A console that lays tables out as they are printed in its charset: what that lacks takes more columns, or others."""

    def fitted(self, shown: RenderableType) -> RenderableType:
        """*shown*, for what prints it by itself, as rich's `Live` does."""
        return fit_charset(shown, self.encoding)

    def print(self, *objects: Any, **options: Any) -> None:
        """As the original."""
        super().print(*(fit_charset(shown, self.encoding) for shown in objects), **options)

    def measure(self, renderable: RenderableType, *, options: ConsoleOptions | None = None) -> Measurement:
        """As the original."""
        return super().measure(self.fitted(renderable), options=options)


def screen_console() -> CharsetConsole:
    """The console of a verb that has the whole screen: unlike that of `output.out`, it does not break long lines."""
    return CharsetConsole(highlight=False, emoji=False)
