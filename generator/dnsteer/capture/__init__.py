# SPDX-License-Identifier: Apache-2.0
"""Packets of one VIP or backend, by mirrors of the running bridge that end by themselves."""
