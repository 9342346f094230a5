# SPDX-License-Identifier: Apache-2.0
"""The spec as typed values: what an operator may write."""
