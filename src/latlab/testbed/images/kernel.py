"""The kernel of a package, as an emulated machine starts it soonest.

A bzImage unpacks itself in the guest, which takes seconds in emulation. It is unpacked here instead where the
compression is one that is known: vmlinux starts at the entry point its PVH note names.
"""

from __future__ import annotations

import ctypes
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping

# Unpacking what was packed with `lz4 -l`, as kernels are: the legacy frame of LZ4.
#
# Formats: doc/lz4_Frame_format.md (legacy frame) and doc/lz4_Block_format.md of LZ4.


LZ4_MAGIC = b"\x02\x21\x4c\x18"
SHORTEST_MATCH = 4
GOES_ON = 15
GOES_ON_BYTE = 255


def unpack_lz4(frame: bytes) -> bytes:
    """The bytes that were packed. IndexError or struct.error: the frame is cut short."""
    unpacked = bytearray()
    at = len(LZ4_MAGIC)
    while at < len(frame):
        (size,) = struct.unpack_from("<I", frame, at)
        at += 4
        unpacked += _block(frame[at : at + size])
        at += size
    return bytes(unpacked)


def _block(block: bytes) -> bytearray:
    """A block: literals and matches, that is copies of what came before, in turns; it ends with literals."""
    out = bytearray()
    at = 0
    while True:
        token = block[at]
        literals, at = _length(block, at + 1, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            return out
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        length += SHORTEST_MATCH
        start = len(out) - distance
        if length <= distance:
            out += out[start : start + length]
        else:
            # It reaches into itself: what is there repeats.
            out += (bytes(out[start:]) * (length // distance + 1))[:length]


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose beginning is known, and where what follows it is."""
    if length == GOES_ON:
        while True:
            more = block[at]
            at += 1
            length += more
            if more != GOES_ON_BYTE:
                break
    return length, at


# Unpacking what was packed with zstd, as newer kernels are, by the library that dpkg itself unpacks packages with.
#
# Functions: lib/zstd.h of Zstandard, its stable part.


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LIBRARY = "libzstd.so.1"
SIZE_AT_END = 4
LARGEST = 1 << 30
"""Bytes; a size beyond is no kernel's."""


def unpack_zstd(payload: bytes) -> bytes:
    """The bytes that were packed; nothing if they cannot be had: there is no library, or the payload is damaged.

    payload: a frame, and after it the number of bytes that come out, as the kernel's build appends it.
    """
    (size,) = struct.unpack_from("<I", payload, len(payload) - SIZE_AT_END)
    if size > LARGEST:
        return b""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return b""
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    unpacked = ctypes.create_string_buffer(size)
    # Of an error it returns a number greater than any size.
    done = library.ZSTD_decompress(unpacked, size, payload, len(payload) - SIZE_AT_END)
    return unpacked.raw if done == size else b""


# The kernel of a package, as an emulated machine starts it soonest.


SETUP_MAGIC = b"HdrS"
SECTOR = 512
ELF = b"\x7fELF"

UNPACKERS: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": lambda payload: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(payload),
    b"\xfd7zXZ\0": lambda payload: lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload),
    LZ4_MAGIC: lambda payload: unpack_lz4(payload[:-SIZE_AT_END]),
    ZSTD_MAGIC: unpack_zstd,
    b"\x5d\0\0": lambda payload: lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload),
}
"""How a payload that begins so is unpacked; what follows it is not looked at."""


def startable(image: bytes) -> bytes:
    """The vmlinux in a bzImage, where its compression is known; else the image as it is.

    The header: Documentation/arch/x86/boot.rst of the kernel, fields setup_sects, payload_offset, payload_length.
    """
    if image[0x202:0x206] == SETUP_MAGIC:
        sectors = image[0x1F1] or 4
        offset, length = struct.unpack_from("<II", image, 0x248)
        start = (sectors + 1) * SECTOR + offset
        payload = image[start : start + length]
        for beginning, unpack in UNPACKERS.items():
            if payload.startswith(beginning) and (kernel := unpack(payload)).startswith(ELF):
                return kernel
    return image
