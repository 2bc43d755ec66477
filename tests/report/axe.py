"""axe-core, Deque's checker of accessibility, as npm has it: one pinned file, fetched once."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from devtools import Browser

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
