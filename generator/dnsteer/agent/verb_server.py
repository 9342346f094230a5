# SPDX-License-Identifier: Apache-2.0
"""What carries out verbs for others: the control socket, and the console's way to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dnsteer.agent.control import Control, RunRequestOn
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.supervise import Supervisor
from dnsteer.deploy.verb_request import VerbOutcome, VerbRequest
from dnsteer.metrics.observer import AgentObserver
from dnsteer.spec.model.extension import Extension
from dnsteer.spec.model.spec import Spec
from dnsteer.view.snapshot import SnapshotRecorder


class VerbServer:
    """Carries out verbs on the switch as the agent has it, and tells what was *seen*. *applied* gives the spec
    that is followed, if one is; *is_acting* says whether this agent acts on the switch, or another one does."""

    def __init__(
        self,
        switch: HeldSwitch,
        run_request: RunRequestOn,
        observer: AgentObserver,
        seen: SnapshotRecorder,
        applied: Callable[[], Spec | None],
        is_acting: Callable[[], bool],
    ) -> None:
        self._switch, self._run_request, self._observer, self._applied = switch, run_request, observer, applied
        self._tell, self._is_acting = seen.knowledge_of, is_acting
        self._control: Control | None = None

    def begin(self, bridge: str, supervisor: Supervisor) -> None:
        """Listen, once the bridge's claim is held."""
        if self._control is not None:
            return
        run = partial(self._run_request, self._switch)
        control = self._control = Control(
            self._switch.remote, bridge, run, self._observer.say, self._tell, self._is_acting
        )
        if control.path is None:
            why = "the database is a remote one"
            self._observer.say(f"no control socket: {why}", "not_listening", reason=why)
        else:
            supervisor.start("the control socket", control.listen)

    async def run_verb(self, asked: VerbRequest) -> VerbOutcome:
        """Carry out a verb that the console asks for."""
        if self._control is None or not self._is_acting():
            return VerbOutcome(1, said="dnsteer: this agent does not act on the switch; nothing was changed\n")
        switch = self._switch
        extension = switch.extension
        if asked.files and extension is None:  # a spec that was sent names no socket of this machine
            spec = self._applied()
            applied = spec.switch.extension if spec is not None else None
            extension = applied.control if applied is not None else Extension.model_fields["control"].default
        named = {"--db": switch.remote, "--openflow": switch.openflow, "--extension": extension}
        options = [word for name, value in named.items() if value for word in (name, value)]
        return await self._control.run_verb(asked, options)

    async def stop(self) -> None:
        """End, once the verbs that are under way have."""
        if self._control is not None:
            await self._control.stop()
