"""`python -m dnsteer`."""

from dnsteer.cli.main import run

run()
