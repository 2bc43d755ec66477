"""Unpacking what was packed with zstd, as newer kernels are, by the library that dpkg itself unpacks packages with.

Functions: lib/zstd.h of Zstandard, its stable part.
"""

from __future__ import annotations

import ctypes
import struct

MAGIC = b"\x28\xb5\x2f\xfd"
LIBRARY = "libzstd.so.1"
SIZE_AT_END = 4
LARGEST = 1 << 30
"""Bytes; a size beyond is no kernel's."""


def unpack(payload: bytes) -> bytes:
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
