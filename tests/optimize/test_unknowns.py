"""The flat vector of a search: what moves, in which unit, and back again."""

import numpy as np
import pytest

from gpbench.optimize.unknowns import Part, Unknowns

TALL = np.asfortranarray(np.arange(6.0).reshape(3, 2))


def unknowns():
    return Unknowns(
        theta=Part(value=np.array([1.0, 2.0]), low=-5.0, high=np.array([5.0, 6.0])),
        held=Part(value=np.array([9.0]), free=False),
        Z=Part(value=TALL, unit=np.array([2.0, 4.0])),
    )


def test_x_holds_the_free_parts_in_their_units_and_values_gives_them_back():
    found = unknowns()
    assert found.x.tolist() == [1.0, 2.0, 0.0, 1.0, 2.0, 0.25, 0.75, 1.25]  # Z column by column, over its units
    values = found.values(found.x)
    assert list(values) == ["theta", "held", "Z"]
    for name, part in found.parts.items():
        np.testing.assert_array_equal(values[name], part.value)
    assert (found.place("theta"), found.place("held")) == (slice(0, 2), slice(0, 0))


def test_bounds_are_those_of_x():
    low, high = unknowns().bounds
    assert low.tolist() == [-5.0, -5.0] + [-np.inf] * 6
    assert high.tolist() == [5.0, 6.0] + [np.inf] * 6


def test_the_gradient_in_x_is_that_of_the_parts_times_their_units():
    found = unknowns()

    def value(x):
        parts = found.values(x)
        return float(np.sin(parts["theta"]).sum() + (parts["Z"] ** 3).sum() + parts["held"].sum())

    x = found.x + 0.1
    parts = found.values(x)
    gradient = found.gradient({"theta": np.cos(parts["theta"]), "Z": 3.0 * parts["Z"] ** 2})
    steps = 1e-6 * np.eye(len(x))
    assert gradient == pytest.approx([(value(x + e) - value(x - e)) / 2e-6 for e in steps], rel=1e-6, abs=1e-6)
    assert (found.gradient({"theta": np.ones(2)})[2:] == 0.0).all()  # a part without one


def test_another_start_and_other_free_parts():
    found = unknowns()
    moved = found.at(found.x + 1.0)
    np.testing.assert_array_equal(moved.parts["Z"].value, TALL + np.array([2.0, 4.0]))
    assert moved.parts["held"].value == 9.0
    alone = found.freeing(["held"])
    assert (alone.size, alone.x.tolist()) == (1, [9.0])


def test_a_unit_of_one_needs_no_copy():
    found = Unknowns.of({"a": np.zeros(3), "b": np.zeros((2, 2), order="F")}, limits={"b": 7.0})
    x = found.x
    values = found.values(x)
    assert all(np.shares_memory(each, x) for each in values.values())
    assert values["b"].flags.f_contiguous
    assert found.bounds[1].tolist() == [np.inf] * 3 + [7.0] * 4
