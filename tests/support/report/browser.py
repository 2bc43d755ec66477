"""A page in Chromium as a reader has it: keys, screens of any width, dark and light, print; by the DevTools protocol.

The protocol's pipe (--remote-debugging-pipe) is enough: JSON texts, each ended by a zero byte. axe-core, Deque's
checker of accessibility, is as npm has it: one pinned file, fetched once.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import select
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
_PATIENCE_S = 600.0
"""A lane that takes what time others leave (tests/support/suite/lanes.py) may get none for minutes."""
_PRINTED_WITHIN_S = 120.0
"""Chromium may never answer that it has printed (puppeteer's issue 7496): a new one is then asked, with patience."""
_READY_AT = """new MutationObserver(() => {
  if (document.body.dataset.interactive === "true") window.interactiveAt ??= performance.now();
  if (document.body.dataset.ready === "true") window.readyAt ??= performance.now();
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ready", "data-interactive"] });"""


class Browser:
    """One page of a Chromium without a window."""

    def __enter__(self) -> Self:
        # Children of Chromium's may still write there when it has ended.
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        ends = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (to_child, from_child)]

        def as_3_and_4() -> None:
            for fd, end in zip((3, 4), ends, strict=True):
                os.dup2(end, fd)

        command = ["chromium", *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            command, close_fds=False, preexec_fn=as_3_and_4, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for one in (to_child, from_child, *ends):
            os.close(one)
        self._buffer, self._number, self._session = b"", 0, ""
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self("Page.enable")
        self("Page.addScriptToEvaluateOnNewDocument", source=_READY_AT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=_PATIENCE_S)
        for one in (self._in, self._out):
            os.close(one)
        self._profile.cleanup()

    def __call__(self, method: str, *, patience_s: float = _PATIENCE_S, **parameters: Any) -> dict[str, Any]:
        """What the method answers. TimeoutError: nothing, for `patience_s` seconds."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._out, text) :]
        until = time.monotonic() + patience_s
        while True:
            answer = self._next(until - time.monotonic())
            assert answer.get("method") != "Inspector.targetCrashed", f"{method}: the page has crashed"
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found

    def _next(self, patience_s: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(patience_s, 0))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def show(self, page: Path, *, width: int = 1280, dark: bool = False, fragment: str = "") -> float:
        """The page is open and drawn; how many seconds after its opening it was ready."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        return self._open(f"{page.resolve().as_uri()}{fragment}")

    def _open(self, url: str) -> float:
        self._url = url
        self("Page.navigate", url=url)
        until = time.monotonic() + _PATIENCE_S
        while not (at := self.run("window.readyAt ?? null")):
            assert time.monotonic() < until, f"not ready: {self.run('document.body?.dataset.ready ?? null')}"
            time.sleep(0.02)
        return float(at) / 1000

    def run(self, script: str) -> Any:
        """The value of an expression, a promise's included."""
        answer = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key is pressed and let go, such as Tab, 9."""
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path) -> Path:
        """The whole page as PNG."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
        data = self("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def print(self, path: Path) -> Path:
        """The page as it is printed on A4, as PDF."""
        try:
            data = self._printed(_PRINTED_WITHIN_S)
        except TimeoutError:
            self._process.kill()
            self.__exit__(None, None, None)
            self.__enter__()
            self._open(self._url)
            data = self._printed(_PATIENCE_S)
        path.write_bytes(base64.b64decode(data))
        return path

    def _printed(self, patience_s: float) -> str:
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        data: str = self("Page.printToPDF", patience_s=patience_s, **paper)["data"]
        return data


VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="

_OPENED = "document.querySelectorAll('details').forEach((one) => (one.open = true))"
_SAME_IDS = """(() => {
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at);
})()"""
_ALIKE = """document.querySelectorAll("tbody").forEach((body) => {
  const seen = new Set();
  [...body.rows].forEach((row) => {
    const shape = row.outerHTML.replace(/>[^<]*</g, (text) => (/^>\\s*<$/.test(text) ? "><" : ">…<"))
      .replace(/ (id|href|for|title|data-[a-z-]+)="[^"]+"/g, " $1");
    if (seen.has(shape)) row.remove();
    seen.add(shape);
  });
})"""
"""Of a table's rows that differ in what their texts are, not in where there are some, one is left: axe looks at every
element, and a run has thousands."""
_CHECKED = """axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.map((rule) =>
  `${rule.id}: ${rule.help}: ${rule.nodes.length}: ` + rule.nodes.slice(0, 3).map((one) => one.html.slice(0, 300))))"""


def axe_source() -> str:
    """The script. Skips the test where there is no npm to fetch it with; fails if it is another than is pinned."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latlab-tests"
    kept = cache / f"axe-core-{VERSION}.min.js"
    if not kept.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is lacking, which fetches axe-core, the checker of accessibility")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            command = ["npm", "pack", f"axe-core@{VERSION}", "--pack-destination", folder, "--silent"]
            subprocess.run(command, check=True, capture_output=True, timeout=600, cwd=folder)
            (archive,) = Path(folder).glob("*.tgz")
            found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            assert found == SHA512, f"axe-core {VERSION} is another than it was"
            with tarfile.open(archive) as files:
                script = files.extractfile("package/axe.min.js")
                assert script
                unpacked = Path(folder) / "axe.min.js"
                unpacked.write_bytes(script.read())
            unpacked.replace(kept)
    return kept.read_text(encoding="utf-8")


def violations(browser: Browser) -> list[str]:
    """What axe finds wrong with the page that is shown, all of it unfolded: a line a rule."""
    browser.run(_OPENED)
    again: Any = browser.run(_SAME_IDS)
    browser.run(_ALIKE)
    browser.run(f"{axe_source()}; undefined")
    found: Any = browser.run(_CHECKED)
    return [str(one) for one in found] + [f"two elements have the id {one}" for one in again]
