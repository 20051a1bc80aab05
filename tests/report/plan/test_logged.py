"""The table of numbers as they are logged, on made-up cells."""

import numpy as np

from gpbench.report.plan import logged

PLAN = """
title = "T"
paper = "wenzel2019"
datasets = ["german", "magic"]
split = "contiguous:10"
render = "logged"
metrics = ["nll", "error"]
published = "numbers.csv"
[methods.x-gpc]
printed = "X-GPC"
"""


def test_three_numbers_of_each_data_set_and_metric(ran, tmp_path, monkeypatch):
    numbers = "dataset,method,metric,value,spread\ngerman,X-GPC,nll,0.31,0.17\ngerman,X-GPC,error,0.25,0.1\n"
    (tmp_path / "numbers.csv").write_text(numbers, encoding="utf-8")
    german = [{"nll": 0.5, "error": 0.2}, {"nll": 0.6, "error": 0.2}, {"status": "failed"}]
    outcomes = {"german": german, "magic": [{"nll": 0.5, "error": 0.1}]}
    found = ran(PLAN, lambda block: outcomes[block.dataset])
    values = iter((0.2, 0.6, 0.5))
    arrays = {}
    for cell in found.results:
        if cell.finished:
            arrays[f"{cell.key}/nll"] = np.array(value := next(values))
            arrays[f"{cell.key}/nll/same"] = np.array(value == cell.metrics["nll"])
            arrays |= {f"{cell.key}/error": np.array(0.3), f"{cell.key}/error/same": np.array(False)}
    german, error, magic, _ = logged.logged_rows(found, arrays)
    assert (german.metric, german.splits, german.same, german.printed) == ("nll", 2, 1, "0.31 ± 0.17")
    assert (error.metric, error.mean, error.logged, error.same, error.printed) == ("error", 0.2, 0.3, 0, "0.25 ± 0.1")
    assert (german.note, magic.note) == ("failed 1/3, 3 of 10 splits", "1 of 10 splits")
    assert (round(german.mean, 12), round(german.logged, 12)) == (0.55, 0.4)
    assert (magic.mean, magic.sd, magic.logged, magic.logged_sd, magic.printed) == (0.5, None, 0.5, None, "")
    monkeypatch.setattr(logged, "stored_arrays", lambda _: arrays)
    written = logged.render(found, tmp_path)
    assert [path.name for path in written] == ["table.txt", "table.md", "table.tex", "table.csv"]
    text = written[0].read_text(encoding="utf-8")
    assert "2 (failed 1/3, 3 of 10 splits)" in text
    assert "0.550 ± 0.071" in text
    assert "0.400 ± 0.283" in text
    rows = written[-1].read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("dataset,method,metric,splits,same,note,mean")
    assert len(rows) == 5
