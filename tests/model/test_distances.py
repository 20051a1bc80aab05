import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gpbench.model.distances import median_distance


def test_it_is_the_median_over_all_pairs_where_rows_are_few():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert median_distance(X) == pytest.approx(np.median(pdist(X)), rel=1e-12)


def test_rows_at_even_steps_stand_for_a_sorted_file():
    X = np.arange(10_000.0)[:, None]
    assert median_distance(X, rows=200) == pytest.approx(10_000 * (1 - np.sqrt(0.5)), rel=0.02)


def test_equal_rows_have_no_distance():
    assert median_distance(np.array([[1.0], [1.0], [1.0], [3.0]])) == 2.0
    assert median_distance(np.ones((5, 2))) is None
    assert median_distance(np.ones((1, 2))) is None
