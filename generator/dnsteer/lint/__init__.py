# SPDX-License-Identifier: Apache-2.0
"""Findings about what hardware does with a spec."""
