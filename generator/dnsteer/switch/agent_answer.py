# SPDX-License-Identifier: Apache-2.0
"""Ask the agent of a bridge what it knows, at its control socket. The agent answers from memory, whatever else it does.

The protocol is in docs/agent.md. An agent of another version is asked too, if it speaks the same version of the
protocol: a reader passes over keys that it does not know.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from dnsteer import __version__
from dnsteer.switch.control_socket import PROTOCOL, refusal_of_agent, socket_of

PATIENCE = 2.0
"""Seconds in which an agent must have told all. One that is well takes milliseconds."""
_MAX = 32 << 20


@dataclass(frozen=True)
class AgentAnswer:
    """What an agent told, as JSON. None where it told nothing: *why* says so, and *connected* whether its socket is open.

    *remote*: its socket is on another machine.
    """

    value: Any = None
    why: str = ""
    connected: bool = False
    remote: bool = False


def ask_knowledge(remote: str, bridge: str, patience: float = PATIENCE) -> AgentAnswer:
    """Ask the agent of a bridge of the OVSDB at *remote* what it knows, within *patience* seconds."""
    path = socket_of(remote, bridge)
    if path is None:
        return AgentAnswer(why="its control socket is on the switch itself", remote=True)
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(patience)
        try:
            sock.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return AgentAnswer(why=f"its control socket {path} is not there")
        except PermissionError:
            return AgentAnswer(why=f"{path}: only root and the user of the agent may ask it")
        except OSError as err:  # a backlog that is full, too
            return AgentAnswer(why=f"{path}: {err.strerror or err}", connected=True)
        try:
            return _asked(sock, deadline)
        except TimeoutError:
            return AgentAnswer(why=f"no answer within {patience:g} s at {path}", connected=True)
        except EOFError:
            return AgentAnswer(why=f"its control socket {path} was closed: it ends")
        except OSError as err:
            return AgentAnswer(why=f"{path}: {err.strerror or err}")
        except (ValueError, RecursionError):
            return AgentAnswer(why=f"{path}: found something that is not JSON")


def _asked(sock: socket.socket, deadline: float) -> AgentAnswer:
    """Take the greeting, ask, and take the answer. Raises OSError, EOFError or ValueError."""
    rest = b""
    asked = False
    while True:
        while b"\n" not in rest:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            data = sock.recv(1 << 18)
            if not data:
                raise EOFError
            rest += data
            if len(rest) > _MAX:
                raise ValueError
        line, _, rest = rest.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError
        if "error" in message:
            text = "".join(c if c.isprintable() else "?" for c in str(message["error"]))
            return AgentAnswer(why=f"it refuses: {text}")
        if "knows" in message:
            if message["knows"] is None:
                return AgentAnswer(why="it does not act on this bridge yet, or stands by")
            return AgentAnswer(message["knows"])
        if not asked:
            if why := refusal_of_agent(message):
                return AgentAnswer(why=why)
            asked = True
            question = {"v": PROTOCOL, "version": __version__, "tell": "knowledge"}
            sock.sendall(json.dumps(question).encode() + b"\n")
