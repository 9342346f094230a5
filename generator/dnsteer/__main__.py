# SPDX-License-Identifier: Apache-2.0
"""`python -m dnsteer`."""

from dnsteer.cli.main import run

run()
