"""Take away the routes of earlier specs: those at another place, and all of them where VIPs are announced no more."""

from __future__ import annotations

from dnsteer.agent.announce.publish import ForeignError, Publisher, PublishError
from dnsteer.agent.announce.routes import RouteOwner
from dnsteer.spec.model.announce import Announce
from dnsteer.switch.agent_record import AgentRecordSession, recorded_route_locations, route_location
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.tools import SwitchError


class Places:
    """Where BIRD may have routes to the VIPs of a bridge. The record says it to an agent that is started later."""

    def __init__(self) -> None:
        self._known: list[Announce] = []

    def forget(self) -> None:
        """Another agent acts."""
        self._known = []

    def settle(self, record: BridgeRecord, owner: RouteOwner, announce: Announce | None) -> list[str]:
        """Withdraw what is elsewhere than *announce* says, and record what is left, in words what has failed.

        What shares the file or the protocols with the present place is tried once, before that has routes.
        """
        here = route_location(announce) if announce is not None else None
        left, wrong = [], []
        recorded: list[Announce] | None = None
        try:
            recorded = recorded_route_locations(record)
        except DamagedError as err:
            wrong.append(str(err))
        known = [*(recorded or []), *(place for place in self._known if place not in (recorded or []))]
        for place in known:
            if place != here and (why := _withdraw(owner, place)):
                wrong.append(why)
                if here is None or not _share(place, here):
                    left.append(place)
        self._known = [*left, *([here] if here is not None else [])]
        if self._known != recorded:
            try:
                with AgentRecordSession(owner.remote) as session:
                    session.record_route_locations(record, self._known)
            except SwitchError as err:
                wrong.append(f"where VIPs are announced could not be recorded: {err}")
        return wrong


def _share(one: Announce, other: Announce) -> bool:
    """Whether to withdraw what is at one place takes away routes at the other."""
    return one.include == other.include or (one.control, one.protocol) == (other.control, other.protocol)


def _withdraw(owner: RouteOwner, place: Announce) -> str:
    """Withdraw the routes at a place; why not, empty if there are none any more."""
    try:
        Publisher(owner, place).withdraw(waits=True)
    except ForeignError:
        return ""  # it has become somebody else's
    except PublishError as err:
        return f"routes in {place.include} are not withdrawn: {err}"
    return ""
