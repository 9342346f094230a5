"""What the console takes notice of in the agent's work: what the agent knows, and each change."""

from __future__ import annotations

from dnsteer.view.snapshot import SeenRecorder, Side

_MAX_STEPS = 1000
"""Steps that wait to be read; older ones are then left out, as the first and the last tell what has changed."""


class ConsoleRecorder(SeenRecorder):
    """Keeps what the console shows. *changed* is called on the event loop when any of it does."""

    _steps: tuple[Side, ...] = ()

    def stepped(self, side: Side) -> None:
        """See SeenRecorder."""
        self._steps = (*self._steps[-_MAX_STEPS:], side)

    def steps(self) -> list[Side]:
        """The sides since the last call, each another than the one before it."""
        found, self._steps = self._steps, ()
        return list(found)
