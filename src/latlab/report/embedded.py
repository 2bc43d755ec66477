"""Documents inside the page."""

from __future__ import annotations

import json

from markupsafe import Markup


def embedded(document: object) -> Markup:
    """A document as JSON that can stand inside a script element, whatever its texts contain.

    "<" is written as an escape, so no text can end the element or open a comment in it (HTML standard,
    "Restrictions for contents of script elements").
    """
    return Markup(json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"))
