# SPDX-License-Identifier: MIT
"""Importing this registers every test."""

from . import bytes_exact, field_children, field_data, field_hang, field_keys, field_resend, field_state, raw, sdk  # noqa: F401
