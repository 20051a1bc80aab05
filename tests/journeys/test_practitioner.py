"""A practitioner's way: a table as it comes, a method for it, and probabilities for rows that come later."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score


def customers(n, *, seed):
    """Numbers, categories, dates, gaps, a column of names, and 4 % who leave."""
    rng = np.random.default_rng(seed)
    days = pd.to_timedelta(rng.integers(0, 1400, n), unit="D")
    frame = pd.DataFrame(
        {
            "customer": [f"C{100_000 * (seed + 1) + row}" for row in range(n)],
            "signed": (pd.Timestamp("2021-01-01") + days).strftime("%Y-%m-%d"),
            "age": rng.integers(18, 90, n).astype(float),
            "income": np.round(rng.lognormal(10, 0.6, n), 2),
            "calls": rng.poisson(2, n),
            "plan": rng.choice(["basic", "plus", "pro", "student"], n, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    score = 1.1 * frame.calls + 1.8 * (frame["plan"] == "pro") - 0.04 * (frame.age - 50) - 6.8
    frame["churn"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    for column, share in (("age", 0.05), ("income", 0.03), ("plan", 0.02)):
        frame.loc[rng.random(n) < share, column] = np.nan
    return frame


@pytest.mark.slow
def test_from_a_raw_table_to_probabilities_of_new_rows(shell, tmp_path):
    known, new = customers(6000, seed=0), customers(2000, seed=1)
    assert 0.03 < (known.churn == "yes").mean() < 0.05
    known.to_csv(tmp_path / "customers.csv", index=False)
    truth = new.pop("churn") == "yes"
    new.loc[0, "plan"] = "platinum"
    new[new.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)  # columns go by name

    # each refusal names what to type next
    sweep = (
        "gpbench run -m x-gpc -m linear -m class-frequencies -d customers.csv --target churn --folds 2 --inducing 20"
    )
    sweep += " --max-iterations 400"
    for option, why in (
        ("--drop customer", "more than 1000 different values"),
        ("--drop signed", "dates"),
        ("--impute median", "missing values in column age ("),
    ):
        refused = shell(sweep, code=1).stderr
        assert option in refused
        assert why in refused
        sweep += f" {option}"
    said = shell(sweep).stderr
    assert "one-hot coded (sorted categories): plan" in said
    assert "columns dropped: customer, signed" in said

    shell("gpbench report -d customers.csv --metrics nll,auc,average_precision,brier,ece --output scores.csv")
    with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
        scores = {row["method"]: row for row in csv.DictReader(file)}
    nll = {name: float(row["nll_mean"]) for name, row in scores.items()}
    assert max(nll["x-gpc"], nll["linear"]) < 0.9 * nll["class-frequencies"]
    assert float(scores["class-frequencies"]["auc_mean"]) == 0.5
    assert float(scores["x-gpc"]["auc_mean"]) > 0.8
    assert float(scores["x-gpc"]["ece_mean"]) < 0.03
    shell("gpbench report -d customers.csv --output page.html")
    assert "how often something came true" in (tmp_path / "page.html").read_text(encoding="utf-8")

    best = min(("x-gpc", "linear"), key=nll.get)
    prepared = "--target churn --drop customer --drop signed --impute median"
    shell(f"gpbench fit customers.csv {prepared} -m {best} --output churn.gpb")
    said = shell("gpbench predict churn.gpb new.csv --output p.csv").stderr
    assert "unknown categories of column plan, coded as none of the known: 1" in said
    assert f"missing values of column age, filled as in training: {new.age.isna().sum()}" in said
    p = pd.read_csv(tmp_path / "p.csv")
    assert list(p.line) == list(range(2, 2002))
    assert np.allclose(p.p_no + p.p_yes, 1.0)
    assert roc_auc_score(truth, p.p_yes) > 0.8
    likely = p.p_yes > p.p_yes.quantile(0.9)  # calibrated where it matters: among those to be called
    assert abs(p.p_yes[likely].mean() - truth[likely].mean()) < 0.08
    assert abs(p.p_yes.mean() - truth.mean()) < 0.015


@pytest.mark.slow
def test_a_stored_cell_predicts_its_own_test_rows_as_it_did(shell, tmp_path):
    customers(600, seed=2).drop(columns=["customer", "signed"]).to_csv(tmp_path / "rows.csv", index=False)
    line = "gpbench run -m x-gpc -d rows.csv --impute median --folds 2 --inducing 10 --max-iterations 50 --json"
    (first, _) = json.loads(shell(line).stdout)["cells"]
    shell(f"gpbench predict {first['key'][:10]} rows.csv --output all.csv")
    with np.load(tmp_path / f"results/runs/{first['key']}.npz") as arrays:
        stored = arrays["test_probabilities"][:, 1]
    predicted = pd.read_csv(tmp_path / "all.csv").p_yes.to_numpy()
    nearest = np.abs(stored[:, None] - predicted[None, :]).min(axis=1)
    assert nearest.max() < 1e-12
