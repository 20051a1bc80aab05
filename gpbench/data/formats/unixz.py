"""Unix ``compress`` (.Z): Lempel-Ziv-Welch with codes of 9 to 16 bits.

The format: magic 1f 9d, a byte of flags (low five bits: most bits a code has; 0x80: block mode, code 256 clears the
table), then codes, lowest bit first. Codes come in groups of eight: when the width changes or the table is cleared, the
rest of the group is padding.
"""

from __future__ import annotations

import io
from typing import IO

__all__ = ["UnixZ"]

_CLEAR = 256


class UnixZ(io.RawIOBase):
    """Read-only stream over a ``.Z`` file; holds one group of codes and the table (at most 65,536 entries)."""

    def __init__(self, packed: IO[bytes]) -> None:
        header = packed.read(3)
        if len(header) < 3 or header[:2] != b"\x1f\x9d":
            raise OSError("not a file of Unix compress")
        self._packed = packed
        self._max_bits = header[2] & 0x1F
        self._block_mode = bool(header[2] & 0x80)
        if not 9 <= self._max_bits <= 16:
            raise OSError(f"Unix compress uses 9 to 16 bits; the header says {self._max_bits}")
        self._ready = bytearray()
        self._previous: bytes | None = None
        self._reset()

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # typeshed's WriteableBuffer is private
        """Fill the buffer; 0 at the end."""
        while not self._ready and self._group():
            pass
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        del self._ready[:count]
        return count

    def _reset(self) -> None:
        self._table: list[bytes] = [bytes([value]) for value in range(256)]
        if self._block_mode:
            self._table.append(b"")  # the place of the clear code
        self._bits = 9

    def _group(self) -> bool:
        """Decode one group of eight codes; False at the end of the file."""
        chunk = self._packed.read(self._bits)
        count = len(chunk) * 8 // self._bits
        if not count:
            return False
        value = int.from_bytes(chunk, "little")
        bits, mask = self._bits, (1 << self._bits) - 1
        for _ in range(count):
            code = value & mask
            value >>= bits
            if code == _CLEAR and self._block_mode:
                self._reset()
                self._previous = None
                break  # the rest of the group is padding
            self._emit(code)
            if self._bits != bits:
                break
        return True

    def _emit(self, code: int) -> None:
        table, previous = self._table, self._previous
        if code < len(table):
            text = table[code]
        elif code == len(table) and previous is not None and len(table) < 1 << self._max_bits:
            text = previous + previous[:1]
        else:
            raise OSError(f"damaged data of Unix compress (code {code} of {len(table)})")
        if previous is not None and len(table) < 1 << self._max_bits:
            table.append(previous + text[:1])
            # One entry lags behind the compressor's table, hence > and not >=.
            if len(table) > (1 << self._bits) - 1 and self._bits < self._max_bits:
                self._bits += 1
        self._ready += text
        self._previous = text
