"""What a program, a library or a kernel module says of itself in its ELF headers."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

MAGIC = b"\x7fELF"

# Of the ELF header of a 64-bit file: the place of the section headers, and their size, number and names.
SECTION_HEADERS = 0x28
SECTION_COUNTS = 0x3A


@dataclass(frozen=True)
class Links:
    """What the loader needs to start a file. needed: names of libraries; interpreter: path of the loader, or None."""

    needed: tuple[str, ...]
    interpreter: str | None


def links(data: bytes) -> Links:
    """What an ELF file is linked with: nothing, for a static one."""
    needed: list[str] = []
    interpreter = None
    for segment in ELFFile(io.BytesIO(data)).iter_segments():
        if isinstance(segment, InterpSegment):
            interpreter = str(segment.get_interp_name())
        elif isinstance(segment, DynamicSegment):
            needed += [tag.needed for tag in segment.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    return Links(tuple(needed), interpreter)


def module_facts(data: bytes) -> list[tuple[str, str]]:
    """What a kernel module says of itself, as (key, value): `depends`, any number of `alias`, and more."""
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".modinfo")
    lines = section.data().decode(errors="replace").split("\0") if section else []
    return [(key, value) for key, equals, value in (line.partition("=") for line in lines) if equals]


def without_symbols(data: bytes) -> bytes:
    """A 64-bit program without what is there for debuggers only: all that is in none of its segments."""
    elf = ELFFile(io.BytesIO(data))
    header = elf.header
    ends = [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments()]
    end = max([header["e_phoff"] + header["e_phnum"] * header["e_phentsize"], *ends])
    order = "<" if elf.little_endian else ">"
    kept = bytearray(data[:end])
    struct.pack_into(f"{order}Q", kept, SECTION_HEADERS, 0)
    struct.pack_into(f"{order}HHH", kept, SECTION_COUNTS, header["e_shentsize"], 0, 0)
    return bytes(kept)
