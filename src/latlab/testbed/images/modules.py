"""A kernel's modules: those asked for and what they depend on, in loading order, with the tables modprobe reads."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.images.elf import module_facts

UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".ko": lambda data: data,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
}


@dataclass(frozen=True)
class Module:
    """A module's file: `path` is where it is below the modules' folder, without the ending of a compressed one."""

    name: str
    path: str
    data: bytes

    @cached_property
    def _facts(self) -> list[tuple[str, str]]:
        return module_facts(self.data)

    @property
    def depends(self) -> list[str]:
        """Names of the modules that have to be loaded before."""
        return [spelt(name) for key, value in self._facts if key == "depends" for name in value.split(",") if name]

    @property
    def aliases(self) -> list[str]:
        """By what else the kernel asks for it, such as `rtnl-link-veth`."""
        return [value for key, value in self._facts if key == "alias"]


class Modules:
    """The modules of the kernel in an unpacked package, found by name, `-` and `_` being the same."""

    def __init__(self, root: Path) -> None:
        """root: the folder the package was unpacked in. LabError: there is no kernel's folder of modules in it."""
        self.folder = next((path for place in ("lib", "usr/lib") for path in root.glob(f"{place}/modules/*")), root)
        if self.folder == root:
            raise LabError("the kernel's package has no modules", where=str(root), remedy="another flavour has")
        self.release = self.folder.name
        self._files = {spelt(path.name.split(".ko")[0]): path for path in self.folder.glob("kernel/**/*.ko*")}
        builtin = self.folder / "modules.builtin"
        self.builtin = builtin.read_text(encoding="utf-8") if builtin.exists() else ""
        self._builtin = {spelt(Path(line).stem) for line in self.builtin.splitlines()}

    def has(self, name: str) -> bool:
        """Whether the kernel can load it, or has it built in."""
        return spelt(name) in self._files or spelt(name) in self._builtin

    def in_order(self, names: Iterable[str]) -> list[Module]:
        """The modules of these names and what they depend on, each after its own dependencies.

        What is built in needs no file. LabError: the kernel does not have one.
        """
        ordered: dict[str, Module] = {}

        def load(name: str) -> None:
            if name in ordered or name in self._builtin:
                return
            module = self._read(name)
            for dependency in module.depends:
                load(dependency)
            ordered[name] = module

        for name in names:
            load(spelt(name))
        return list(ordered.values())

    def _read(self, name: str) -> Module:
        path = self._files.get(name)
        if path is None:
            raise LabError(f"kernel {self.release} has no module {name}", where="building an image")
        unpack = UNPACKERS.get(path.suffix)
        if unpack is None:
            raise LabError(
                f"kernel {self.release} has modules compressed as {path.suffix}, which cannot be unpacked here",
                where="building an image",
                remedy=f"readable are {', '.join(UNPACKERS)}",
            )
        inside = path.relative_to(self.folder).parent / f"{path.name.split('.ko')[0]}.ko"
        return Module(name, str(inside), unpack(path.read_bytes()))


def spelt(name: str) -> str:
    """A module's name as the running kernel spells it."""
    return name.replace("-", "_")


def tables(modules: Iterable[Module]) -> dict[str, str]:
    """modules.dep and modules.alias, by their names, as depmod(8) writes them. modules: in loading order."""
    needs: dict[str, set[str]] = {}
    paths: dict[str, str] = {}
    dep, alias = [], []
    for module in modules:
        direct = [name for name in module.depends if name in paths]
        needs[module.name] = set(direct).union(*(needs[name] for name in direct))
        paths[module.name] = module.path
        # Each before what it needs itself, which is fewer.
        order = sorted(needs[module.name], key=lambda name: (-len(needs[name]), name))
        dep.append(" ".join([f"{module.path}:", *(paths[name] for name in order)]))
        alias += [f"alias {one} {module.name}" for one in module.aliases]
    return {"modules.alias": _lines(alias), "modules.dep": _lines(dep)}


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in sorted(lines))
