"""The table of an NLL as it is logged, on made-up cells."""

import numpy as np

from gpbench.report.plan import logged

PLAN = """
title = "T"
paper = "wenzel2019"
datasets = ["german", "magic"]
split = "contiguous:10"
render = "logged"
metrics = ["nll"]
published = "numbers.csv"
[methods.x-gpc]
printed = "X-GPC"
"""


def test_three_numbers_of_each_data_set(ran, tmp_path, monkeypatch):
    numbers = "dataset,method,metric,value,spread\ngerman,X-GPC,nll,0.31,0.17\n"
    (tmp_path / "numbers.csv").write_text(numbers, encoding="utf-8")
    outcomes = {"german": [{"nll": 0.5}, {"nll": 0.6}, {"status": "failed"}], "magic": [{"nll": 0.5}]}
    found = ran(PLAN, lambda block: outcomes[block.dataset])
    values = iter((0.2, 0.6, 0.5))
    arrays = {}
    for cell in found.results:
        if cell.finished:
            arrays[f"{cell.key}/logged"] = np.array(value := next(values))
            arrays[f"{cell.key}/whole"] = np.array(value == cell.metrics["nll"])
    german, magic = logged.logged_rows(found, arrays)
    assert (german.splits, german.whole, german.printed) == (2, 1, "0.31 ± 0.17")
    assert (german.note, magic.note) == ("failed 1/3, 3 of 10 splits", "1 of 10 splits")
    assert (round(german.nll, 12), round(german.logged, 12)) == (0.55, 0.4)
    assert (magic.nll, magic.nll_sd, magic.logged, magic.logged_sd, magic.printed) == (0.5, None, 0.5, None, "")
    monkeypatch.setattr(logged, "stored_arrays", lambda _: arrays)
    written = logged.render(found, tmp_path)
    assert [path.name for path in written] == ["table.txt", "table.md", "table.tex", "table.csv"]
    text = written[0].read_text(encoding="utf-8")
    assert "2 (failed 1/3, 3 of 10 splits)" in text
    assert "0.550 ± 0.071" in text
    assert "0.400 ± 0.283" in text
    rows = written[-1].read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("dataset,method,splits,whole,note,nll")
    assert len(rows) == 3
