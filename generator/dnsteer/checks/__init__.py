# SPDX-License-Identifier: Apache-2.0
"""Rules that a well-formed spec must keep: a module for each part of the spec."""
