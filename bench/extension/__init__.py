# SPDX-License-Identifier: Apache-2.0
"""The extension under load, and its program by itself."""
