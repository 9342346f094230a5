# SPDX-License-Identifier: Apache-2.0
"""Connection plugin: run a host's commands in a network namespace of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: netns
short_description: run commands in a network namespace of this machine
description:
  - Every command runs through C(ip netns exec NAME), without ssh. Files are those of this machine, so copies are local.
  - Made for the lab of dnsteer, where the switch, the client and the name servers are namespaces. Needs root.
author: dnsteer
version_added: 1.0.0
options:
  netns_name:
    description: Name of the namespace as C(ip netns list) shows it. Empty means no namespace, run on this machine.
    type: string
    default: ""
    vars:
      - name: ansible_netns_name
extends_documentation_fragment:
  - connection_pipelining
"""


class Connection(ConnectionBase):  # type: ignore[misc]  # ansible-core has no types
    """Runs commands by `ip netns exec`; the file system is the one of this machine."""

    transport = "netns"
    has_pipelining = True

    def _connect(self) -> Connection:
        """Look whether the namespace exists. Raises AnsibleConnectionFailure, so that the host counts as unreachable."""
        name = self.get_option("netns_name")
        if name and not Path("/run/netns", name).exists():
            raise AnsibleConnectionFailure(f"no network namespace {name!r}; `ip netns list` shows those that exist")
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a shell command, with *in_data* as its standard input; exit code, standard output and error."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        name = self.get_option("netns_name")
        argv = [*(["ip", "netns", "exec", name] if name else []), "/bin/sh", "-c", cmd]
        try:
            done = subprocess.run(argv, input=in_data or b"", capture_output=True, check=False)
        except OSError as error:
            raise AnsibleConnectionFailure(f"{argv[0]}: {error.strerror}") from error
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the host, which is this machine."""
        super().put_file(in_path, out_path)
        _copy(in_path, out_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file from the host, which is this machine."""
        super().fetch_file(in_path, out_path)
        _copy(in_path, out_path)

    def close(self) -> None:
        """Nothing stays open between commands."""
        self._connected = False


def _copy(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError as error:
        raise AnsibleFileNotFound(f"{error.filename}: no such file") from error
    except shutil.SameFileError:
        pass
    except OSError as error:
        raise AnsibleError(f"copying {source} to {target}: {error.strerror}") from error
