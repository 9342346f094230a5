# SPDX-License-Identifier: Apache-2.0
"""One HTML file that says all about a running switch now, to attach to a ticket."""
