# SPDX-License-Identifier: MIT
"""Importing this registers every test."""

from . import (  # noqa: F401
    bytes_exact,
    config,
    conformance,
    crash,
    field_approval,
    field_children,
    field_data,
    field_hang,
    field_keys,
    field_resend,
    field_sessions,
    field_state,
    field_web_calls,
    field_web_keys,
    field_web_operations,
    http_upstream,
    more,
    ops,
    raw,
    sdk,
    sdk_http,
    self_check,
    serve,
    settings,
)
