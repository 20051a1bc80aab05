import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from bench_fakes import FAKE, spec

from gpbench.bench.cell import CONTENT, SEEDS, SPLIT, Limits, OriginSpec
from gpbench.bench.result import ENDS, FormatError, Problem, Result
from gpbench.errors import StoreError
from gpbench.schemes.base import StoppedBy

ORIGIN = OriginSpec(key="0" * 20, method="klsp", version=1, settings={"kernel": "se"})


def a_result(**changes):
    return replace(
        Result.of(
            spec(limits=Limits(seconds=2, test_rows=5)),
            status="ok",
            stopped_by="converged",
            metrics={"nll": 0.5, "error": 0.25, "train_seconds": 1.0, "iterations": 7, "bound": None},
            trace={"seconds": [0.1], "iteration": [7], "nll": [0.5], "error": [0.25], "bound": [None]},
            provenance={"cpu": "Zen 4", "threads": 2, "jobs": 3, "end": "2026-11-27T12:00:00.000+00:00"},
            arrays_sha256="a" * 64,
        ),
        **changes,
    )


FAILED = {
    "status": "failed",
    "stopped_by": None,
    "metrics": {"nll": None, "error": None, "train_seconds": 1.0},
    "problem": Problem("ValueError", "no", 3),
    "arrays_sha256": None,
}


PLACED = {**FAILED, "problem": Problem("ValueError", "no", 3, place="mine.py:7")}
SOURCES = {"source": "a1" * 10, "changes": "b2" * 10, "origin": replace(ORIGIN, source="c3" * 10)}


@pytest.mark.parametrize(
    "changes",
    [{}, {"origin": ORIGIN}, SOURCES, FAILED, PLACED],
    ids=["ok", "with an origin", "of changed code", "failed", "failed at a place"],
)
def test_json_and_back(changes):
    result = a_result(**changes)
    assert Result.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result


def test_a_problem_without_a_place_is_stored_as_it_always_was():
    assert a_result(**FAILED).to_json()["problem"] == {"type": "ValueError", "message": "no", "iteration": 3}
    assert [str(each["problem"]) for each in (FAILED, PLACED)] == ["ValueError: no", "ValueError: no (mine.py:7)"]


def test_a_result_is_the_cell_that_it_came_from():
    one = spec(limits=Limits(seconds=2, test_rows=5))
    assert a_result().key == one.key
    assert a_result().identity().description == one.identity().description


def test_what_is_asked_of_the_provenance():
    assert (a_result().cpu, a_result().threads, a_result().jobs) == ("Zen 4", 2, 3)
    assert a_result().ended == "2026-11-27T12:00:00.000+00:00"
    bare = a_result(provenance={})
    assert (bare.cpu, bare.threads, bare.jobs, bare.ended) == ("unknown", 1, 1, "")


def _set(*path_and_value):
    *path, last, value = path_and_value

    def change(content):
        for name in path:
            content = content[name]
        content[last] = value

    return change


#: What stands wrongly in a file, and what is said of it.
WRONG = [
    (_set("format", 1), "its format must be 2; got 1"),
    (_set("format", True), "its format must be 2; got True"),
    (lambda content: content.pop("metrics"), "it lacks metrics"),
    (lambda content: content.pop("checksum"), "it lacks checksum"),
    (_set("clocks", "wall"), "unknown field of format 2 'clocks'"),
    (_set("status", "fine"), "unknown status 'fine'; did you mean failed?"),
    (_set("status", ["ok"]), "status must be a text; got ['ok']"),
    (_set("method", 3), "method must be a text; got 3"),
    (_set("version", True), "version must be an integer >= 1; got True"),
    (_set("seed", 0.5), "seed must be an integer >= 0; got 0.5"),
    (_set("settings", []), "settings must be a table; got []"),
    (_set("settings", "rate", float("nan")), "it cannot be written as JSON"),
    (_set("limits", {"hours": 1}), "limits: unknown key 'hours'; known: iterations, seconds, test_rows, train_rows"),
    (_set("limits", {"seconds": "2"}), "limits: seconds must be a number; got '2'"),
    (_set("limits", {"seconds": -2}), "limits: the limit on seconds must be a positive number; got -2"),
    (_set("split", {}), "split: protocol is missing"),
    (_set("split", "index", 3), "split: index must lie in 0..count - 1; got 3 of 3"),
    (_set("origin", {"key": "a"}), "origin: method is missing"),
    (_set("stopped_by", 1), "stopped_by must be a text; got 1"),
    (_set("stopped_by", "limit"), "unknown stopped_by 'limit'"),
    (_set("stopped_by", "on_step"), "unknown stopped_by 'on_step'"),
    (_set("metrics", "nll", "0.5"), "metrics: nll must be a finite number or null; got '0.5'"),
    (_set("metrics", "nll", float("nan")), "metrics: nll must be a finite number or null; got nan"),
    (_set("metrics", "bound", 10**400), "metrics: bound must be a finite number or null; got 1000"),
    (_set("metrics", "extra", True), "metrics: extra must be a finite number or null; got True"),
    (_set("metrics", "nll", None), "metrics of a cell that ended well must hold the numbers nll, error, train_seconds"),
    (_set("metrics", {}), "metrics lacks nll, error, train_seconds"),
    (_set("trace", {"seconds": []}), "trace: expected the lists seconds, iteration, nll, error, bound; got seconds"),
    (_set("trace", "nll", 0.5), "trace: nll must be a list; got 0.5"),
    (_set("trace", "nll", ["a"]), "trace: nll must hold finite numbers or null; got 'a'"),
    (_set("trace", "seconds", [None]), "trace: seconds must hold finite numbers; got None"),
    (_set("trace", "bound", []), "trace: expected lists of one length; got seconds 1, iteration 1"),
    (_set("provenance", "threads", "2"), "provenance: threads must be an integer >= 1; got '2'"),
    (_set("problem", {"type": "A", "message": "b", "iteration": 1}), "a cell has a problem unless its status is ok"),
    (_set("problem", 3), "problem must be a table; got 3"),
    (_set("key", "0" * 20), "its key '00000000000000000000' does not belong to its description"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_in_a_file_is_said(change, message):
    content = a_result().to_json()
    del content["digest"]
    change(content)
    with pytest.raises(StoreError) as caught:
        Result.from_json(content)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_cell_ends_as_schemes_may_say_or_by_a_limit_and_each_word_is_documented():
    assert set(ENDS) == set(get_args(StoppedBy)) - {"on_step"} | {"seconds"}
    words = (Path(__file__).parents[2] / "docs" / "howto" / "results.md").read_text(encoding="utf-8")
    assert [end for end in ENDS if f"| `{end}` |" not in words] == []
    for end in ENDS:
        assert Result.from_json(a_result(stopped_by=end).to_json()).stopped_by == end


def test_another_format_is_told_from_damage():
    with pytest.raises(FormatError):
        Result.from_json({"format": 1})
    with pytest.raises(StoreError) as caught:
        Result.from_json({"format": 2})
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("content", [None, [], "ok", 3, {}], ids=str)
def test_what_is_no_result_is_none(content):
    with pytest.raises(StoreError, match=r"expected a result|format must be"):
        Result.from_json(content)


def test_a_number_that_was_changed_by_hand_is_noticed():
    content = a_result().to_json()
    content["metrics"]["nll"] = 0.4
    with pytest.raises(StoreError, match="its content does not match its digest"):
        Result.from_json(content)


def test_cells_that_differ_in_split_and_seeds_alone_are_a_group():
    one = spec()
    for other in (
        replace(one, split=replace(one.split, index=1)),
        replace(one, split=replace(one.split, seed=4), seed=5),
    ):
        assert other.identity().group == one.identity().group
        assert other.key != one.key
    for other in (
        replace(one, settings={**FAKE.resolve({}), "rate": 0.2}),
        replace(one, version=2),
        replace(one, checksum="other"),
        replace(one, limits=Limits(seconds=1)),
        replace(one, split=replace(one.split, protocol="contiguous:3")),
        replace(one, origin=ORIGIN),
    ):
        assert other.identity().group != one.identity().group


def test_an_origin_counts_by_what_it_is_and_its_key_in_the_key_alone():
    one, moved = (replace(spec(), origin=replace(ORIGIN, key=key * 20)) for key in "01")
    assert one.key != moved.key
    assert one.identity().group == moved.identity().group
    later = replace(one, origin=replace(ORIGIN, version=2))
    assert later.identity().group != one.identity().group


def test_parts_can_be_left_aside_one_by_one():
    one = spec()
    other = replace(one, checksum="unknown", likelihood="unknown", split=replace(one.split, index=2), seed=1)
    assert one.identity().but_for(*CONTENT, *SPLIT, "seed") == other.identity().but_for(*CONTENT, *SPLIT, "seed")
    assert one.identity().but_for(*CONTENT, *SPLIT) != other.identity().but_for(*CONTENT, *SPLIT)
    assert one.identity().but_for(*SPLIT, *SEEDS, "checksum") != other.identity().but_for(*SPLIT, *SEEDS, "checksum")
    with pytest.raises(AssertionError, match="nothing is no part"):
        one.identity().but_for("nothing")
