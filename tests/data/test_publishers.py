"""Files in the publishers' exact formats, made here where the originals are too large or not to be had."""

import bz2
import gzip
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from gpbench.data import load as module
from gpbench.data.catalogue import entry
from gpbench.data.load import load
from gpbench.errors import DataError


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Loads a data set of the catalogue from files that are given here; hashes and row counts are not checked."""

    def unpinned(file):
        return replace(file, sha256=(), size=None)

    def load_from(name, **files):
        one = entry(name)
        editions = [
            replace(
                edition,
                n=None,
                counts={},
                parts=tuple(replace(part, file=unpinned(part.file)) for part in edition.parts),
            )
            for edition in one.editions
        ]
        monkeypatch.setattr(module, "entry", lambda _: replace(one, n=None, editions=tuple(editions)))
        for file in one.files:
            if file.name in files:
                path = tmp_path / "files" / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(files[file.name])
        return load(name, folder=tmp_path, offline=True)

    return load_from


def _csv(rows):
    return b"".join(b",".join(b"%.18e" % value for value in row) + b"\n" for row in rows)


@pytest.mark.parametrize(("name", "d", "file"), [("higgs", 28, "HIGGS.csv"), ("susy", 18, "SUSY.csv")])
@pytest.mark.parametrize("zipped", [False, True])
def test_events_in_scientific_notation_label_first(made, name, d, file, zipped):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, d))
    y = rng.integers(0, 2, 3000)
    packed = gzip.compress(_csv(np.column_stack([y, X])))
    if zipped:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(f"{file}.gz", packed)
        found = made(name, **{f"{name}.zip": buffer.getvalue()})
    else:
        found = made(name, **{f"{file}.gz": packed})
    assert (found.X.dtype, found.classes, found.task) == (np.float32, ("0", "1"), "binary")
    assert isinstance(found.X, np.memmap)
    np.testing.assert_array_equal(found.X, X.astype(np.float32))
    np.testing.assert_array_equal(found.y, y)


def test_a_truncated_download_of_events_is_an_error(made):
    whole = gzip.compress(_csv(np.random.default_rng(0).standard_normal((500, 29))))
    with pytest.raises(DataError, match=r"data set higgs: HIGGS.csv.gz"):
        made("higgs", **{"HIGGS.csv.gz": whole[: len(whole) // 2]})


def test_benchmarks_mat_counts_rows_from_one(made):
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((12, 2)), rng.choice([-1, 1], (12, 1))
    order = np.array([rng.permutation(12) for _ in range(3)]) + 1
    content = {"banana": {"x": X, "t": t, "train": order[:, :8].astype(np.uint16), "test": order[:, 8:]}}
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, content)
    found = made("banana", **{"benchmarks.mat": buffer.getvalue()})
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(2 * found.y - 1, t[:, 0])
    assert len(found.given) == 3
    for k, (train, test) in enumerate(found.given):
        np.testing.assert_array_equal(train, np.sort(order[k, :8] - 1))
        np.testing.assert_array_equal(test, np.sort(order[k, 8:] - 1))
    assert any("benchmarks.mat" in note for note in found.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"banana": 1}, "must be a structure of x, t, train, test"),
        ({"other": 1}, "no variable 'banana'"),
        ({"banana": {"x": np.ones((3, 2)), "t": np.ones((3, 1)), "train": [[0, 1]], "test": [[2]]}}, "from 1 to 3"),
        ({"banana": {"x": np.ones((3, 2)), "t": np.ones((2, 1)), "train": [[1, 2]], "test": [[3]]}}, "do not fit"),
    ],
)
def test_other_contents_of_benchmarks_mat_are_errors(made, change, message):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, change)
    with pytest.raises(DataError, match=message):
        made("banana", **{"benchmarks.mat": buffer.getvalue()})


def _cells(*values):
    cell = np.empty((1, len(values)), dtype=object)
    cell[0] = [*values]
    return cell


def _pedestrians(*, packed=False, **change):
    rng = np.random.default_rng(2)
    features = [rng.standard_normal((30, 50)) for _ in range(3)]
    counts = [rng.integers(0, 40, (1, 50)) for _ in range(3)]
    content = {"dirs": _cells("r", "l", "t"), "fv": _cells(*features), "cnt": _cells(*counts)} | change
    buffer, archive = io.BytesIO(), io.BytesIO()
    scipy.io.savemat(buffer, content, do_compression=packed)
    with zipfile.ZipFile(archive, "w") as folder:
        folder.writestr("features/Peds1_feats.mat", buffer.getvalue())
        folder.writestr("features/Peds2_feats.mat", b"another scene")
    return archive.getvalue(), features, counts


@pytest.mark.parametrize("packed", [False, True])
def test_pedestrians_walking_left(made, packed):
    archive, features, counts = _pedestrians(packed=packed)
    found = made("ucsdpeds1l", **{"ucsdpeds_feats.zip": archive})
    assert (found.task, found.classes) == ("count", ())
    np.testing.assert_array_equal(found.X, features[1].T)
    np.testing.assert_array_equal(found.y, counts[1][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dirs": _cells("east", "west", "all")}, "expected a direction 'l'; got 'east', 'west', 'all'"),
        ({"cnt": _cells(*[np.ones((1, 7))] * 3)}, "one count for each frame"),
        ({"cnt": _cells(np.ones((1, 7)))}, "features and counts of 3 directions; some are missing"),
        ({"cnt": np.ones((1, 7))}, "'cnt' is no cell array but double"),
        ({"dirs": _cells(1.0, 2.0, 3.0)}, "is no text but double"),
    ],
)
def test_pedestrians_that_do_not_fit_are_errors(made, change, message):
    with pytest.raises(DataError, match=message):
        made("ucsdpeds1l", **{"ucsdpeds_feats.zip": _pedestrians(**change)[0]})


def test_musk_as_published_leaves_the_names_out(made):
    rng = np.random.default_rng(3)
    X = rng.integers(-300, 300, (20, 166))
    lines = [f"MUSK-{i},{i}_1+1," + ",".join(map(str, row)) + f",{i % 2}." for i, row in enumerate(X)]
    found = made("musk", **{"clean2.data.Z": ("\n".join(lines) + "\n").encode()})
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, np.arange(20) % 2)
    assert found.classes == ("0", "1")


HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,TailNum,"
    "ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance,TaxiIn,TaxiOut,Cancelled,"
    "CancellationCode,Diverted,CarrierDelay,WeatherDelay,NASDelay,SecurityDelay,LateAircraftDelay\n"
)
FLIGHTS = (
    # year month day weekday dep, arr, tail, air time, delay, distance: what happens to the row
    "2008,1,3,4,2003,1955,2211,2225,WN,335,N1,128,150,116,-14,8,IAD,TPA,810,4,8,0,,0,NA,NA,NA,NA,NA\n"  # early
    "2008,1,4,5,754,735,2400,1000,WN,3231,N1,128,145,113,2,19,IAD,TPA,810,5,10,0,,0,NA,NA,NA,NA,NA\n"  # midnight
    "2008,4,30,3,5,10,59,50,WN,448,N2,96,90,76,34,34,IND,BWI,515,3,17,0,,0,2,0,0,0,32\n"  # late, 00:05
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N1,90,90,77,-5,34,IND,BWI,515,3,10,0,,0,NA,NA,NA,NA,NA\n"  # on time at -5
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N1,90,90,77,5,34,IND,BWI,515,3,10,0,,0,NA,NA,NA,NA,NA\n"  # on time at 5
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N1,90,90,77,0,34,IND,BWI,515,3,10,0,,0,NA,NA,NA,NA,NA\n"  # delay 0
    "2008,2,1,5,NA,1755,NA,1925,WN,3920,N1,NA,90,NA,NA,NA,IND,BWI,515,NA,NA,1,A,0,NA,NA,NA,NA,NA\n"  # cancelled
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N3,90,90,77,34,34,IND,BWI,515,3,10,0,,0,2,0,0,0,32\n"  # year None
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N4,90,90,77,34,34,IND,BWI,515,3,10,0,,0,2,0,0,0,32\n"  # year 0000
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N5,90,90,77,34,34,IND,BWI,515,3,10,0,,0,2,0,0,0,32\n"  # nothing known
    "2008,2,1,5,1829,1755,1959,1925,WN,3920,N9,90,90,77,34,34,IND,BWI,515,3,10,0,,0,2,0,0,0,32\n"  # not listed
    "2008,5,1,4,1829,1755,1959,1925,WN,3920,N1,90,90,77,34,34,IND,BWI,515,3,10,0,,0,2,0,0,0,32\n"  # May
)
PLANES = (
    "tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year\n"
    "N5\n"
    "N1,Corporation,BOEING,07/01/1997,737,Valid,Fixed Wing Multi-Engine,Turbo-Jet,1998\n"
    "N2,Corporation,BOEING,07/01/1997,737,Valid,Fixed Wing Multi-Engine,Turbo-Jet,2008\n"
    "N3,Corporation,BOEING,07/01/1997,737,Valid,Fixed Wing Multi-Engine,Turbo-Jet,None\n"
    "N4,Corporation,BOEING,07/01/1997,737,Valid,Fixed Wing Multi-Engine,Turbo-Jet,0000\n"
)
ROWS = [  # month, day, weekday, departure, arrival, air time, distance, age
    [1, 3, 4, 1203, 1331, 116, 810, 10],
    [1, 4, 5, 474, 1440, 113, 810, 10],
    [4, 30, 3, 5, 59, 76, 515, 0],
    [2, 1, 5, 1109, 1199, 77, 515, 10],
    [2, 1, 5, 1109, 1199, 77, 515, 10],
    [2, 1, 5, 1109, 1199, 77, 515, 10],
]


def _airline(made, name):
    return made(name, **{"2008.csv.bz2": bz2.compress((HEADER + FLIGHTS).encode()), "plane-data.csv": PLANES.encode()})


def test_flights_of_2008_in_two_classes(made):
    found = _airline(made, "airline")
    np.testing.assert_array_equal(found.X, ROWS)
    assert found.features == ("month", "day", "weekday", "departure", "arrival", "air_time", "distance", "age")
    assert found.classes == ("delayed", "on time")
    np.testing.assert_array_equal(found.y, [1, 0, 0, 1, 0, 1])
    assert "rows with missing values left out: 5" in found.notes


def test_flights_of_2008_in_three_classes(made):
    found = _airline(made, "airline-3")
    np.testing.assert_array_equal(found.X, ROWS)
    assert found.classes == ("early", "on time", "late")
    np.testing.assert_array_equal(found.y, [0, 1, 2, 1, 1, 1])


def test_flights_with_text_for_a_time_are_an_error_that_names_file_and_column(made):
    broken = FLIGHTS.replace("754", "7h54")
    with pytest.raises(DataError, match=r"2008.csv.bz2.*departure"):
        made("airline", **{"2008.csv.bz2": (HEADER + broken).encode(), "plane-data.csv": PLANES.encode()})


def test_flights_without_a_column_are_an_error(made):
    with pytest.raises(DataError, match="no column DepTime"):
        made(
            "airline",
            **{
                "2008.csv.bz2": (HEADER.replace("DepTime", "Dep", 1) + FLIGHTS).encode(),
                "plane-data.csv": PLANES.encode(),
            },
        )


def test_planes_without_years_are_an_error(made):
    with pytest.raises(DataError, match=r"plane-data.csv, line 1: expected columns tailnum and year"):
        made("airline", **{"2008.csv.bz2": (HEADER + FLIGHTS).encode(), "plane-data.csv": b"a,b\n1,2\n"})


def test_flights_of_2013_take_the_weekday_from_the_date(made):
    header = (
        "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
        "dest,air_time,distance,hour,minute,time_hour\n"
    )
    rows = (
        "2013,1,1,517,515,2,830,819,11,UA,1545,N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
        "2013,1,6,533,529,4,850,830,-20,UA,1714,N1,LGA,IAH,227,1416,5,29,2013-01-01T10:00:00Z\n"
        "2013,1,2,NA,529,NA,NA,830,NA,UA,1714,N1,LGA,IAH,NA,1416,5,29,2013-01-01T10:00:00Z\n"
        "2013,1,2,533,529,4,850,830,1,UA,1714,NA,LGA,IAH,227,1416,5,29,2013-01-01T10:00:00Z\n"
    )
    planes = "tailnum,year,type\nN1,2004,Fixed\nN2,NA,Fixed\n"
    found = made("flights-2013", **{"flights.csv": (header + rows).encode(), "planes.csv": planes.encode()})
    np.testing.assert_array_equal(found.X, [[1, 1, 2, 317, 510, 227, 1400, 9], [1, 6, 7, 333, 530, 227, 1416, 9]])
    np.testing.assert_array_equal(found.y, [0, 1])


def test_one_hot_of_bank_marketing_leaves_the_first_category_out(made):
    header = (
        '"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";"month";"duration";'
        '"campaign";"pdays";"previous";"poutcome";"y"\n'
    )
    rows = (
        '58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;"unknown";"no"\n'
        '44;"technician";"single";"secondary";"no";29;"yes";"no";"unknown";5;"may";151;1;-1;0;"unknown";"yes"\n'
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("bank-full.csv", header + rows)
        archive.writestr("bank.csv", "not this one")
    with pytest.raises(DataError, match="expected 42 features, got 10"):
        made("bank-marketing", **{"bank.zip": buffer.getvalue()})
