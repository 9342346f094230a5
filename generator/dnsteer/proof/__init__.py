# SPDX-License-Identifier: Apache-2.0
"""Sends packets through a private switch and checks every byte."""
