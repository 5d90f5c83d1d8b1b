# SPDX-License-Identifier: MIT
"""Importing this registers every test."""

from . import sdk  # noqa: F401
