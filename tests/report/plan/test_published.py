import csv

import pytest

from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.read import read_plan
from gpbench.errors import UsageError
from gpbench.report.plan.published import find_printed, published_folder, read_published, unit_of

HEAD = (
    'title = "T"\npaper = "mine"\ndatasets = ["german"]\npublished = ["numbers.csv"]\n'
    '[methods.x-gpc]\nlabel = "X"\n[sweep]\ninducing = ["5%", "20%"]\n[overrides.german]\nlabel = "German"\n'
)

ROWS = "dataset,method,metric,value\n"


def plan(tmp_path, numbers, text=HEAD):
    (tmp_path / "numbers.csv").write_text(numbers, encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def test_rows_are_told_apart_by_what_they_say_beside(tmp_path):
    found = plan(
        tmp_path,
        "dataset,method,metric,value,spread,inducing_fraction,note\n"
        "German,X,nlp,0.5,0.1,0.05,first\nGerman,X,nlp,0.4,,0.20,\nGerman,X,seconds,large,,0.05,\n"
        "German,X,accuracy,0.9,0.02,0.05,\n",
    )
    printed = read_published(found)
    five, twenty = blocks(found)
    assert [find_printed(printed, found, block, "nll").value for block in (five, twenty)] == [0.5, 0.4]
    assert find_printed(printed, found, five, "nll").text == "0.5 ± 0.1"
    assert find_printed(printed, found, twenty, "nll").spread is None
    assert find_printed(printed, found, five, "train_seconds").value is None
    assert find_printed(printed, found, five, "error").value == pytest.approx(0.1)
    assert find_printed(printed, found, five, "error").spread == 0.02
    assert find_printed(printed, found, five, "accuracy").value == 0.9
    assert find_printed(printed, found, twenty, "error") is None


def test_a_file_may_hold_several_papers_and_settings(tmp_path):
    found = plan(
        tmp_path,
        "paper,dataset,method,metric,value,batch_size\n"
        "other,German,X,nll,0.1,\nmine,German,X,nll,0.2,100\nmine,German,X,nll,0.3,200\n",
    )
    assert find_printed(read_published(found), found, blocks(found)[0], "nll").value == 0.2


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("dataset,method,metric\n", "expected the columns dataset, method, metric, value; value missing"),
        ("", "expected the columns dataset, method, metric, value; dataset, method, metric, value missing"),
        (f"{ROWS}G,X,nll,big\n", "line 2: expected a number or 'large'"),
        (f"{ROWS}G,X,nll,nan\n", "line 2: expected a number or 'large'.*got 'nan'"),
        (f"{ROWS}G,X,nll,1e999\n", "line 2: expected a number or 'large'.*got '1e999'"),
        (f"{ROWS}G,X,nll,\n", "line 2: expected a number or 'large'.*got ''"),
        (f"{ROWS}G,X,nll\n", "line 2: expected 4 values; got 3"),
        (f"{ROWS}G,X,nll,1\n\nG,X\n", "line 4: expected 4 values; got 2"),
        (f"{ROWS}G,X,nll,0,17\n", "line 2: expected 4 values; got 5"),
        (f'{ROWS}G,X,nll,"1\n', "line 2: unexpected end of data"),
        (f"{ROWS[:-1]},value\nG,X,nll,1,2\n", "expected columns of different names; got value twice"),
        (
            f"{ROWS[:-1]},spread\nG,X,nll,1,wide\n",
            "line 2: expected .*a number or nothing as spread; got '1' and 'wide'",
        ),
        (f"{ROWS[:-1]},inducing_fraction\nG,X,nll,1,5 %\n", "line 2: inducing_fraction: expected a number; got '5 %'"),
    ],
)
def test_files_that_hold_something_else(tmp_path, numbers, message):
    with pytest.raises(UsageError, match=rf"numbers.csv.*{message}"):
        read_published(plan(tmp_path, numbers))


def test_a_file_that_is_no_text(tmp_path):
    found = plan(tmp_path, "")
    (tmp_path / "numbers.csv").write_bytes(f"{ROWS}G,X,nll,1\n".encode() + "G,Köln,nll,2\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"numbers.csv, line 3: expected text in UTF-8; got byte 0xf6"):
        read_published(found)


def test_a_file_as_spreadsheets_write_it(tmp_path):
    (one,) = read_published(plan(tmp_path, f"\ufeff{ROWS}German,X,nll,0.50\n".replace("\n", "\r\n")))
    assert (one.value, one.unit, one.text) == (0.5, 0.01, "0.50")


@pytest.mark.parametrize(
    ("text", "unit"),
    [("0.17", 0.01), ("47", 1.0), ("0.070", 1e-3), ("1e-2", 1e-2), ("5e-05", 1e-5), ("1.20e-3", 1e-5), ("2E3", 1e3)],
)
def test_the_unit_of_the_last_digit(tmp_path, text, unit):
    assert unit_of(text) == unit
    (one,) = read_published(plan(tmp_path, f"{ROWS}German,X,nll,{text}\n"))
    assert (one.value, one.unit) == (float(text), unit)


@pytest.mark.parametrize("text", ["", "large", "nan", "-inf", "1e999"])
def test_what_has_no_last_digit(text):
    with pytest.raises(UsageError, match="expected a number; got"):
        unit_of(text)


def test_two_numbers_for_one(tmp_path):
    found = plan(tmp_path, "dataset,method,metric,value\nGerman,X,nll,1\nGerman,X,nll,2\n")
    with pytest.raises(UsageError, match="2 printed numbers for X, M = 5% on German, nll"):
        find_printed(read_published(found), found, blocks(found)[0], "nll")


def test_no_such_file(tmp_path):
    with pytest.raises(UsageError, match=r"published = 'nothing.csv': .* cannot be read"):
        read_published(plan(tmp_path, "", HEAD.replace("numbers.csv", "nothing.csv")))


def test_every_table_that_ships_can_be_read(tmp_path):
    for path in sorted(published_folder().glob("*.csv")):
        if path.name != "claims.csv":
            text = HEAD.replace('["numbers.csv"]', f'"{path.name}"').replace('"mine"', '"hensman2015"')
            rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
            own = [row for row in rows if row.get("paper", "hensman2015") == "hensman2015"]
            extra = sum(row["metric"] == "accuracy" for row in own)
            assert len(read_published(plan(tmp_path, "", text))) == len(own) + extra > 0
