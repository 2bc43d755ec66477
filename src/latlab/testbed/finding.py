"""One thing that the doctor found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing found.

    ok: True it is as it should be, False runs will fail, None runs work but measure less well or less.
    """

    area: str
    name: str
    ok: bool | None
    found: str
    remedy: str = ""
