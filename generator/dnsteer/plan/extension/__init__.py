# SPDX-License-Identifier: Apache-2.0
"""The extension's part of a plan."""
