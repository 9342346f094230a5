"""The control socket of the ovs-vswitchd that the agent works with, for pages that ask it themselves."""

from __future__ import annotations

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket


def vswitchd(switch: TargetSwitch) -> Unixctl:
    """A connection, to be closed. Raises SwitchError where it is on another machine, UnavailableError where it is away."""
    if not switch.remote.startswith("unix:"):
        raise SwitchError(
            "this is read through the control socket of ovs-vswitchd, which only an agent on the switch itself reaches; "
            f"this agent works through {switch.remote}"
        )
    return Unixctl(control_socket(switch.remote), switch.timeout)
