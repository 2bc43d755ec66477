"""What a page holds once a browser has shown it: Chromium without a window, with nothing of an earlier run."""

from __future__ import annotations

import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--dump-dom",
)


class Element(dict[str, str]):
    """One element's attributes, with its tag."""

    def __init__(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        super().__init__((name, value or "") for name, value in attributes)
        self.tag = tag


class Elements(HTMLParser):
    """Every start tag of a document, in order."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[Element] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, attrs))


def opened(page: Path, fragment: str = "", *flags: str) -> str:
    """The document after Chromium has opened the page and its scripts have come to rest."""
    # Children of Chromium's may still write there when it has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        finished = subprocess.run(
            [
                "chromium",
                *_FLAGS,
                *flags,
                f"--user-data-dir={profile}",
                f"{page.resolve().as_uri()}{fragment}",
            ],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
    return finished.stdout


def acted(page: Path, script: str, *flags: str) -> str:
    """The document after the page was ready and `script` has run in it, as a reader's hand would act."""
    ours = f"""<script>const waiting = setInterval(async () => {{
      if (document.body.dataset.ready !== "true") return;
      clearInterval(waiting);
      {script}
    }}, 20);</script></body>"""
    document = page.read_text(encoding="utf-8")
    # The page's policy would refuse a script that is not its own: the copy that is acted upon has none.
    start = document.index('<meta http-equiv="Content-Security-Policy"')
    end = document.index(">", start) + 1
    copy = page.with_name("acted.html")
    copy.write_text(document[:start] + document[end:].replace("</body>", ours), encoding="utf-8")
    return opened(copy, "", *flags)


def charts(document: str) -> list[Element]:
    """Every chart of a document."""
    return [element for element in Elements(document).found if "data-chart" in element]


def body(document: str) -> Element:
    """The body element of a document."""
    return next(element for element in Elements(document).found if element.tag == "body")
