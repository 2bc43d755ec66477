"""Parts of the page for reference, as facts and steps: packed together; the browser unpacks one when it is opened."""

from __future__ import annotations

import base64
import json
import zlib

from markupsafe import Markup

FALLBACK = Markup(
    '<p class="quiet">This part is unpacked by JavaScript. The same is in the run\'s folder: facts-before.json, '
    "facts-after.json and cell.json of each cell, and plan.txt.</p>"
)
"""What stands in the place of a part until it is unpacked."""


def deflated(data: bytes, level: int = 6) -> str:
    """Raw DEFLATE (RFC 1951) as base64: what `inflated` of decode.js takes."""
    squeezer = zlib.compressobj(level=level, wbits=-15)
    return base64.b64encode(squeezer.compress(data) + squeezer.flush()).decode("ascii")


class PackedParts:
    """Parts of one page, in their order."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def keep(self, part: Markup, fallback: Markup = FALLBACK) -> Markup:
        """What stands on the page instead of this part: its number, and the fallback."""
        self._parts.append(str(part))
        return Markup('<div data-part="{}">{}</div>').format(len(self._parts) - 1, fallback)

    def data(self) -> Markup:
        """All parts for report.js: a JSON list of HTML, deflated as one, so that what cells share is there once."""
        return Markup(deflated(json.dumps(self._parts, ensure_ascii=False).encode(), level=9))


# Documents inside the page


def embedded(document: object) -> Markup:
    """A document as JSON that can stand inside a script element, whatever its texts contain.

    "<" is written as an escape, so no text can end the element or open a comment in it (HTML standard,
    "Restrictions for contents of script elements").
    """
    return Markup(json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))
