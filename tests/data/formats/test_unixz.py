import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbench.data.formats.unixz import UnixZ


class Compressor:
    """The other direction, after the description of the format; ``clear_at`` entries empty the table once."""

    def __init__(self, max_bits=16, clear_at=None):
        self.max_bits, self.clear_at = max_bits, clear_at
        self.out = bytearray(b"\x1f\x9d" + bytes([max_bits | 0x80]))
        self.reset()
        self.group = []

    def reset(self):
        self.table = {bytes([value]): value for value in range(256)}
        self.next, self.bits = 257, 9

    def flush(self):
        if self.group:
            value = sum(code << (self.bits * k) for k, code in enumerate(self.group))
            used = -(-len(self.group) * self.bits // 8)
            self.out += value.to_bytes(used, "little")
            self.group = []

    def pad(self):
        self.group += [0] * (-len(self.group) % 8)
        self.flush()

    def emit(self, code):
        self.group.append(code)
        if len(self.group) == 8:
            self.flush()
        if self.next > (1 << self.bits) - 1 and self.bits < self.max_bits:
            self.pad()
            self.bits += 1

    def pack(self, data):
        text = b""
        for value in data:
            longer = text + bytes([value])
            if longer in self.table:
                text = longer
                continue
            self.emit(self.table[text])
            if self.next < 1 << self.max_bits:
                self.table[longer] = self.next
                self.next += 1
            text = longer[-1:]
            if self.clear_at is not None and self.next >= self.clear_at:
                self.group.append(256)
                self.pad()
                self.reset()
                self.clear_at = None
        if text:
            self.emit(self.table[text])
        self.flush()
        return bytes(self.out)


def unpack(packed):
    return io.BufferedReader(UnixZ(io.BytesIO(packed))).read()


@given(st.binary(max_size=3000), st.integers(9, 16))
@settings(deadline=None, max_examples=60)
def test_what_was_packed_comes_out_again(data, max_bits):
    assert unpack(Compressor(max_bits).pack(data)) == data


def test_all_code_widths_and_a_full_table():
    data = np.random.default_rng(0).integers(0, 4, 900_000, dtype=np.uint8).tobytes()
    compressor = Compressor()
    packed = compressor.pack(data)
    assert compressor.bits == 16
    assert compressor.next == 1 << 16
    assert unpack(packed) == data


@pytest.mark.parametrize("clear_at", [258, 400, 512, 513, 700])
def test_the_table_may_be_cleared(clear_at):
    data = np.random.default_rng(1).integers(0, 9, 5_000, dtype=np.uint8).tobytes()
    assert unpack(Compressor(clear_at=clear_at).pack(data)) == data


def test_a_run_of_one_byte_uses_codes_before_they_are_in_the_table():
    assert unpack(Compressor().pack(b"a" * 1000)) == b"a" * 1000


@given(st.binary(max_size=400))
@settings(deadline=None)
def test_rubbish_ends(data):
    problem = None
    try:
        unpack(b"\x1f\x9d\x90" + data)
    except OSError as error:
        problem = str(error)
    assert problem is None or "Unix compress" in problem


@pytest.mark.parametrize("head", [b"", b"\x1f\x9d", b"\x1f\x8b\x90", b"\x1f\x9d\x88", b"\x1f\x9d\x91"])
def test_wrong_headers_are_refused(head):
    with pytest.raises(OSError, match="Unix compress"):
        UnixZ(io.BytesIO(head))


@pytest.mark.mirror
@pytest.mark.skipif("GPBENCH_MIRROR" not in os.environ, reason="GPBENCH_MIRROR names no mirror")
def test_a_file_of_the_real_compress():
    folder = Path(os.environ["GPBENCH_MIRROR"]) / "uci" / "shuttle"
    assert unpack((folder / "shuttle.trn.Z").read_bytes()) == (folder / "shuttle.trn").read_bytes()
