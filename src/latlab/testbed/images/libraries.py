"""Which shared libraries programs need, found in unpacked packages, never on the machine that builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from latlab.model.errors import LabError
from latlab.testbed.images import elf
from latlab.testbed.images.archive import Entry, file
from latlab.testbed.images.tree import Tree, merged


def needed_libraries(entries: Mapping[str, Entry], tree: Tree) -> dict[str, Entry]:
    """The libraries the entries' programs are linked with, their loader among them, and those libraries' own.

    LabError: no unpacked package has one.
    """
    found: dict[str, Entry] = {}
    waiting = [(name, entry) for name, entry in sorted(entries.items()) if _is_elf(entry)]
    while waiting:
        name, entry = waiting.pop()
        for path in _paths(name, elf.links(entry.data), tree):
            for place, part in tree.followed(path).items():
                if place not in found and place not in entries:
                    found[place] = part
                    if _is_elf(part):
                        waiting.append((place, part))
    return found


def command(path: str, tree: Tree) -> tuple[str, ...]:
    """The beginning of a command line that runs the packages' program at the path where it was unpacked.

    With the packages' own loader and libraries, whatever this machine has. LabError: one is missing.
    """
    program = tree.place(path)
    needed = needed_libraries({path: file(program.read_bytes())}, tree)
    folders = dict.fromkeys(str(tree.place(library).parent) for library in needed)
    interpreter = elf.links(program.read_bytes()).interpreter or ""
    loader = tree.place(merged(interpreter.lstrip("/")))
    return (str(loader), "--argv0", path, "--library-path", ":".join(folders), str(program))


def _paths(name: str, linked: elf.Links, tree: Tree) -> Iterator[str]:
    """Where what a file is linked with is in the image."""
    if linked.interpreter:
        yield merged(linked.interpreter.lstrip("/"))
    for library in linked.needed:
        path = tree.library(library)
        if path is None:
            raise LabError(
                f"/{name} needs {library}, which none of its dependencies provides",
                where="building an image",
                remedy="add the package that provides it: --package",
            )
        yield path


def _is_elf(entry: Entry) -> bool:
    return entry.data.startswith(elf.MAGIC)
