# SPDX-License-Identifier: Apache-2.0
"""The pipeline: a module for each OpenFlow table; the template of the same name renders its rows as flows."""
