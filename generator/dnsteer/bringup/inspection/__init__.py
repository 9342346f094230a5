# SPDX-License-Identifier: Apache-2.0
"""Inspect a machine for what a spec's switch needs. Changes nothing and needs no privileges."""
