# SPDX-License-Identifier: Apache-2.0
"""Verbs that change a running switch, from `apply` to `reconcile`."""
