# SPDX-License-Identifier: Apache-2.0
"""Estimates how fast hardware forwards a spec's packets, from published measurements."""
