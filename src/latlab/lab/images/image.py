"""A guest image that was built, and what is written down about it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.lab.images.recipe import recipe_version

FORMAT = "latlab.image/1"
DESCRIPTION = "image.json"
KERNEL = "kernel"
INITRAMFS = "initramfs"
BASE = "base"


@dataclass(frozen=True)
class Image:
    """What a guest boots.

    append: the kernel's command line, to which more may be added. digest: of all that went in, in hexadecimal; so are
    agent (the agent's binary), recipe (how images are made) and base (all but the agent). packages: name → version.
    extra: packages that were asked for by name. built: when, UTC, ISO 8601. size: bytes of kernel and initramfs.
    """

    name: str
    kernel: Path
    initramfs: Path
    append: str
    flavour: str
    kernel_version: str
    digest: str
    packages: Mapping[str, str]
    built: str
    size: int
    extra: tuple[str, ...] = ()
    agent: str = ""
    recipe: str = ""
    base: str = ""

    @property
    def folder(self) -> Path:
        """Where its files are, and nothing else."""
        return self.initramfs.parent

    def is_up_to_date(self, agent: Path) -> bool:
        """Whether that agent is in it, and it would be made in the same way today. OSError: no such agent."""
        return (self.agent, self.recipe) == (file_digest(agent), recipe_version())

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return dataclasses.asdict(self) | {"kernel": str(self.kernel), "initramfs": str(self.initramfs)}


def write_description(image: Image, path: Path) -> None:
    """Nothing; the image is described in that file."""
    document = {"format": FORMAT} | image.as_dict()
    # Where its files are follows from where this file is.
    del document["kernel"], document["initramfs"]
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_description(path: Path) -> Image | None:
    """The image described in that file; None where there is none, one of another format, or its files are not whole."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
            return None
        folder = path.parent / folder_name(document["digest"])
        document["extra"] = tuple(document["extra"])
        image = Image(kernel=folder / KERNEL, initramfs=folder / INITRAMFS, **document)
        return image if size_of(folder) == image.size else None
    except (FileNotFoundError, ValueError):
        return None


def size_of(folder: Path) -> int:
    """Bytes of the kernel and the initial file system in an image's folder. FileNotFoundError: it lacks one."""
    return sum((folder / part).stat().st_size for part in (KERNEL, INITRAMFS))


def folder_name(digest: str) -> str:
    """The name of the folder of the image with that digest."""
    return digest[:16]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON document, in hexadecimal: the same for the same document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
