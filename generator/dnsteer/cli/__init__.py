# SPDX-License-Identifier: Apache-2.0
"""The `dnsteer` command: a module for each verb, or for verbs of one kind, and what prints their results."""
