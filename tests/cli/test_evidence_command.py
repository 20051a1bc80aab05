"""The long work: every plan has its place, what is done is passed over, and each data set is a command of its own."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

import gpbench
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.cli import evidence as module
from gpbench.cli.evidence import ORDER, Work, commands, main, works
from gpbench.config import load_config
from gpbench.errors import UsageError


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPBENCH_MIRROR", raising=False)
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))


def left(name, **known):
    given = {"cells": 4, "stored": 0, "hours": 1.0, "unknown": 0, "absent": ()}
    return Work(plan=find_plan(name), **given | known)


def test_every_plan_that_ships_has_a_place():
    assert sorted(ORDER) == sorted(shipped())


def test_plans_come_by_value_and_those_of_a_method_can_be_left_out():
    names = ["hensman2015/mnist", "villacampa2017/table2", "wenzel2019/fig3"]
    found = works(load_config(), plans=names)
    assert [each.plan.id for each in found] == ["villacampa2017/table2", "wenzel2019/fig3", "hensman2015/mnist"]
    assert found[0].cells > 0
    assert found[0].hours > 0.0
    assert [each.plan.id for each in works(load_config(), plans=names, avoid=["klsp-sgd", "epgpc"])] == names[1:2]
    with pytest.raises(UsageError, match="unknown plan"):
        works(load_config(), plans=["wenzel2019/fig9"])


def test_each_data_set_is_a_command_unless_the_picture_needs_all_cells_at_once():
    work = left("wenzel2019/fig2", absent=("susy",))
    assert commands(work, jobs=2) == [
        ["reproduce", "wenzel2019/fig2", "--reference", "--jobs", "2", "--datasets", name]
        for name in ("electricity", "cod-rna", "susy-1k")
    ]
    assert commands(left("hensman2015/fig1"), jobs=1) == [["reproduce", "hensman2015/fig1", "--reference"]]
    assert commands(left("sheth2015/fig1"), jobs=1) == [["reproduce", "sheth2015/fig1", "--reference"]]


def run(monkeypatch, found, codes):
    ran = []

    def command(arguments):
        ran.append(arguments)
        return codes.pop(0)

    monkeypatch.setattr(module, "works", lambda *_, **__: found)
    monkeypatch.setattr(module, "check_addition", lambda *_, **__: None)
    monkeypatch.setattr(module, "_run", command)
    monkeypatch.setattr(module.os, "nice", lambda _: 0)
    return CliRunner().invoke(main, []), ran


def test_what_is_done_is_passed_over_and_failed_cells_stop_nothing(monkeypatch):
    found = [left("wenzel2019/fig3", stored=4), left("wenzel2019/fig6"), left("sheth2015/fig1", cells=0)]
    done, ran = run(monkeypatch, found, [4, 1, 0])
    assert [(each[1], each[-1]) for each in ran] == [
        ("wenzel2019/fig6", "shuttle"), ("wenzel2019/fig6", "w8a-union"), ("sheth2015/fig1", "--reference"),
    ]  # fmt: skip
    assert done.exit_code == 1
    assert "gpbench reproduce wenzel2019/fig6 --reference --datasets w8a-union" in done.output


@pytest.mark.parametrize("code", [130, -9])
def test_an_interrupt_ends_the_work(monkeypatch, code):
    done, ran = run(monkeypatch, [left("wenzel2019/fig6")], [code])
    assert (done.exit_code, len(ran)) == (130, 1)


def test_the_list_runs_nothing_and_adds_up(monkeypatch):
    found = [left("wenzel2019/fig3", stored=1), replace(left("wenzel2019/fig5"), hours=0.5, absent=("higgs",))]
    monkeypatch.setattr(module, "works", lambda *_, **__: found)
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    assert "7 cells, 1.5 processor hours left" in done.output
    assert "no data here: higgs" in done.output


def test_sigterm_ends_the_command_that_runs(tmp_path):
    """The command would wait for long; it is told to end, and the work ends with it."""
    script = tmp_path / "work.py"
    script.write_text(
        "import sys, time\n"
        "from gpbench.cli import evidence\n"
        "evidence.sys.executable = sys.argv[1]\n"
        "print(evidence._run([]), flush=True)\n",
        encoding="utf-8",
    )
    child = tmp_path / "child"
    child.write_text(
        f"#!{sys.executable}\nimport os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n",
        encoding="utf-8",
    )
    child.chmod(0o755)
    here = {**os.environ, "PYTHONPATH": str(Path(gpbench.__file__).parents[1])}
    process = subprocess.Popen([sys.executable, str(script), str(child)], stdout=subprocess.PIPE, text=True, env=here)
    while not (tmp_path / "pid").exists() or not (pid := (tmp_path / "pid").read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.communicate()[0].split() == ["130"]
    assert not psutil.pid_exists(int(pid))
