# SPDX-License-Identifier: Apache-2.0
"""Probes: what is asked of a backend, how, and whether its answer is good."""
