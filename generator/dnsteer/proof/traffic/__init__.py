# SPDX-License-Identifier: Apache-2.0
"""The packets that prove a spec."""
