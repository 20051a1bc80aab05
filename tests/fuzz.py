"""Minutes of mutated files for each reader, against the limits of time and memory that the documentation promises.

Each case is a small file of which bytes were changed, cut, doubled, or repeated up to ten thousand times, under
options that may be out of place. It becomes a data set or is refused with a message, within 2 processor seconds and
200 MB more than ten times its size. What does neither is told with the number that makes it again. Usage:

    python tests/fuzz.py [--minutes M] [--only NAME] [--case NUMBER]
"""

import argparse
import random
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "data"), str(HERE / "data" / "formats")]

from mutants import FILES, load_or_refuse, mutated, some_options  # noqa: E402
from refusal import read_or_refuse  # noqa: E402
from test_binary_formats import GOOD, OPTIONS, read  # noqa: E402
from test_unixz import Compressor, unpack  # noqa: E402

LONGEST = 10_000
SECONDS, MEGABYTES, TIMES = 2.0, 200.0, 10
"""Of a case; megabytes beyond so many times the file's size."""


def user_file(name):
    def case(chance):
        data = mutated(chance, FILES[name], longest=LONGEST)
        options = some_options(chance)
        return data, lambda: load_or_refuse(name, data, options)

    return case


def binary(kind):
    def case(chance):
        data = mutated(chance, GOOD[kind], longest=LONGEST)
        return data, lambda: read_or_refuse(lambda: read(data, kind.split()[-1], **OPTIONS.get(kind, {})))

    return case


def unix_z(chance):
    data = mutated(chance, Compressor().pack(FILES["t.csv"]), longest=LONGEST)

    def run():
        try:
            unpack(data)
        except OSError as error:
            assert "Unix compress" in str(error)  # noqa: PT017

    return data, run


CASES = {
    **{name: user_file(name) for name in FILES},
    **{f"read {kind}": binary(kind) for kind in GOOD},
    "read Z": unix_z,
}


def problems_of(case, number):
    """What is wrong with one case: its exception, its time, its memory; and what it took."""
    data, run = case(random.Random(number))
    found = []
    before, began = peak(anew=True), time.process_time()
    try:
        run()
    except Exception:  # noqa: BLE001  # that is what is looked for
        found.append(traceback.format_exc(limit=-3))
    seconds = time.process_time() - began
    grown = peak() - before
    allowed = MEGABYTES + TIMES * len(data) / 2**20
    if seconds > SECONDS:
        found.append(f"{seconds:.2f} s for {len(data):,} bytes")
    if grown > allowed:
        found.append(f"{grown:.0f} MB for {len(data):,} bytes")
    return found, seconds, grown


def peak(*, anew=False):
    """The most megabytes that this process has held, since the last call that began anew. Linux alone tells."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="processor minutes a reader")
    parser.add_argument("--only", choices=sorted(CASES), action="append", help="a reader; may be repeated")
    parser.add_argument("--case", type=int, help="one case of --only, once more")
    options = parser.parse_args()
    bad = 0
    for name in options.only or CASES:
        number = options.case if options.case is not None else random.SystemRandom().getrandbits(40)
        until, count, slowest, largest = time.process_time() + 60 * options.minutes, 0, 0.0, 0.0
        while count == 0 or (options.case is None and time.process_time() < until):
            found, seconds, grown = problems_of(CASES[name], number)
            for problem in found:
                print(f"{name}, case {number}: {problem}", flush=True)
            bad, count, number = bad + bool(found), count + 1, number + 1
            slowest, largest = max(slowest, seconds), max(largest, grown)
        print(f"{name}: {count:,} cases, slowest {slowest:.2f} s, largest {largest:.0f} MB", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
