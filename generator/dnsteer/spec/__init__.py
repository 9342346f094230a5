# SPDX-License-Identifier: Apache-2.0
"""What the operator writes: the typed model, and reading it from YAML with the line of every value."""
