# SPDX-License-Identifier: MIT
"""Keys for MCP tool calls that stay the same when a framework runs a step again.

`step_key` and `call_once` need the MCP SDK alone; `hapax_mcp.langchain` is for LangGraph.
"""

from .answers import (
    HapaxError,
    HapaxRefused,
    HapaxUnavailable,
    Operation,
    operation_of,
)
from .call import call_once
from .keys import step_key

__all__ = [
    "HapaxError",
    "HapaxRefused",
    "HapaxUnavailable",
    "Operation",
    "call_once",
    "operation_of",
    "step_key",
]
