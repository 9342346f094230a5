# SPDX-License-Identifier: Apache-2.0
"""What a running switch does now: the verbs that only read."""
