# SPDX-License-Identifier: Apache-2.0
"""Specs of several files: includes, variables and defaults, and the one effective spec that they amount to."""
