"""What a machine says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]
"""What the agent's `facts` said, of one machine, of a part of it, or by the names of hosts: JSON, read where it is used
(docs/reference/facts.md).
"""
