"""Keep the port of probes set up. Where it is gone, only the checks through it wait for it: no look, and no failover."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from dnsteer.agent import network
from dnsteer.agent.supervise import Retry
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.tools import SwitchError

_TROUBLE = "the probe port"
_Work = Callable[[Callable[[], None]], Awaitable[None]]
"""Does something in the thread that changes the switch."""


class ProbePort:
    """The port of probes that the followed spec has, if it has one."""

    def __init__(self, observer: AgentObserver) -> None:
        self._observer = observer
        self._checked = False
        """Whether it has been set up since the last look."""
        self._retry = Retry()

    def looked(self) -> None:
        """A look is done, which may have made the port anew."""
        self._checked = False
        self._retry.worked()

    async def adopt(self, spec: Spec, work: _Work, time: float) -> None:
        """Set it up as another spec says, before its checks begin."""
        self.looked()
        if spec.switch.probe is None:
            self._observer.forget_troubles(_TROUBLE)
        await self.keep(spec, work, time)

    async def keep(self, spec: Spec, work: _Work, time: float) -> None:
        """Set it up, if that has not been done since the last look; where it fails, it is tried again later."""
        if self._checked or not self._retry.due(time):
            return
        try:
            await work(partial(network.set_up_probe_port, spec))
        except SwitchError as err:
            self._retry.failed(time)
            self._observer.report_trouble(_TROUBLE, f"the port of probes cannot be set up: {err}", "error")
            return
        self._checked = True
        self._observer.end_trouble(_TROUBLE, "the port of probes is set up")
