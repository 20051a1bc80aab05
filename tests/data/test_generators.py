import numpy as np
import pytest

from gpbench.data.generators import BLOCK, GENERATORS, blocks, parse, prior, prior_features
from gpbench.data.load import load
from gpbench.errors import UsageError


def _rows(name, rows):
    found = list(blocks(name, rows))
    X = np.concatenate([block.iloc[:, :-1].to_numpy() for block in found])
    return X, np.concatenate([block["target"].to_numpy() for block in found])


@pytest.mark.parametrize("name", GENERATORS)
def test_a_row_does_not_depend_on_how_many_are_made(name):
    few, many = _rows(name, 30), _rows(name, BLOCK + 30)
    np.testing.assert_array_equal(few[0], many[0][:30])
    np.testing.assert_array_equal(few[1], many[1][:30])
    assert not np.array_equal(many[0][:30], many[0][BLOCK:])


def test_twonorm_has_the_moments_of_its_definition():
    X, y = _rows("twonorm-gen", BLOCK)
    for label in (-1, 1):
        rows = X[y == label]
        np.testing.assert_allclose(rows.mean(0), label * 2 / np.sqrt(20), atol=0.06)
        np.testing.assert_allclose(np.cov(rows.T), np.eye(20), atol=0.09)


def test_ringnorm_has_the_moments_of_its_definition():
    X, y = _rows("ringnorm-gen", BLOCK)
    np.testing.assert_allclose(X[y == 1].mean(0), 0, atol=0.12)
    np.testing.assert_allclose(np.cov(X[y == 1].T), 4 * np.eye(20), atol=0.36)
    np.testing.assert_allclose(X[y == -1].mean(0), 2 / np.sqrt(20), atol=0.06)
    np.testing.assert_allclose(np.cov(X[y == -1].T), np.eye(20), atol=0.09)


def test_waveform_means_are_the_means_of_two_triangles():
    X, y = _rows("waveform3", BLOCK)
    place = np.arange(1, 22)
    triangle = {1: np.maximum(6 - abs(place - 11), 0), 2: np.maximum(6 - abs(place - 15), 0)}
    triangle[3] = np.maximum(6 - abs(place - 7), 0)
    for label, pair in ((1, (1, 2)), (2, (1, 3)), (3, (2, 3))):
        np.testing.assert_allclose(X[y == label].mean(0), (triangle[pair[0]] + triangle[pair[1]]) / 2, atol=0.15)
    assert X[y == 1].var(0)[0] == pytest.approx(1, abs=0.1)  # both triangles are 0 there


def test_prior_features_expand_the_kernel_exactly():
    x = np.linspace(-2.5, 2.5, 41)
    phi = prior_features(x)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-((x[:, None] - x) ** 2) / 2), atol=1e-13)


def test_prior_labels_follow_the_largest_of_three_smooth_functions():
    X, y = _rows("prior3", 4000)
    assert abs(X).max() <= 2.5
    assert set(y) == {1, 2, 3}
    nearest = ((X[:300, None] - X[300:]) ** 2).sum(2).argmin(1)
    assert np.mean(y[300:][nearest] == y[:300]) > 0.95


@pytest.mark.parametrize(
    ("name", "expected"),
    [("twonorm-gen", ("twonorm-gen", None)), ("twonorm-gen:1_000", ("twonorm-gen", 1000)), ("glass", ("glass", None))],
)
def test_rows_are_named_after_a_colon(name, expected):
    assert parse(name) == expected


@pytest.mark.parametrize(
    "name", ["twonorm-gen:", "twonorm-gen:many", "twonorm-gen:1", "twonorm-gen:-5", "waveform3:١٠"]
)
def test_bad_numbers_of_rows_are_refused(name):
    with pytest.raises(UsageError, match="expected a number of rows"):
        parse(name)


def test_only_generated_sets_take_a_number_of_rows():
    with pytest.raises(UsageError, match=r"unknown generated data set 'glass'.*twonorm-gen"):
        parse("glass:100")


def test_a_generated_set_is_prepared_once_and_has_the_rows_asked_for(tmp_path):
    first = load("twonorm-gen:250", folder=tmp_path)
    again = load("twonorm-gen:250", folder=tmp_path)
    assert (first.n, first.d, first.classes, first.id) == (250, 20, ("-1", "1"), "twonorm-gen:250")
    assert again.checksum == first.checksum
    np.testing.assert_array_equal(first.X, _rows("twonorm-gen", 250)[0])
    assert load("twonorm-gen", folder=tmp_path).n == 7400


@pytest.mark.parametrize("name", GENERATORS)
def test_draws_are_data_sets_of_seeds_of_their_own_the_first_being_the_data_set_itself(name):
    X, y = _rows(name, 40)
    found = list(blocks(name, 40, draws=3))
    assert [len(block) for block in found] == [40] * 3
    many = [block.iloc[:, :-1].to_numpy() for block in found]
    np.testing.assert_array_equal(many[0], X)
    np.testing.assert_array_equal(found[0]["target"].to_numpy(), y)
    assert not np.array_equal(many[1], many[0])
    assert not np.array_equal(many[2], many[1])


def test_the_prior_draws_functions_of_its_own():
    """The same inputs would have other labels: a draw is another data set, and not other rows of one."""
    X = np.random.default_rng(0).uniform(-2.5, 2.5, size=(200, 2))

    class Fixed:
        def uniform(self, *_, **__):
            return X

    one, other = (prior(Fixed(), 200, seed=seed)[1] for seed in (0, 1))
    assert np.mean(one != other) > 0.3


def test_a_data_set_of_draws_bears_the_id_and_has_all_rows(tmp_path):
    found = load("waveform3:50", folder=tmp_path, draws=4)
    alone = load("waveform3:50", folder=tmp_path)
    assert (found.id, found.n, alone.n) == ("waveform3:50", 200, 50)
    np.testing.assert_array_equal(found.X[:50], alone.X)
    assert found.checksum != alone.checksum


@pytest.mark.parametrize("name", ["gpdraw2-gen", "gpdraw8-gen"])
def test_labels_of_a_prior_draw_follow_a_smooth_function(name):
    X, y = _rows(name, BLOCK)
    np.testing.assert_allclose(X.std(0), 1.0, atol=0.05)
    distance = ((X[:500, None] - X[None, 500:]) ** 2).sum(2)
    alike = (y[:500, None] == y[None, 500:]).astype(float)
    nearest = np.take_along_axis(alike, distance.argsort(axis=1)[:, :5], axis=1).mean()
    # at one place two labels agree with probability E p² + E (1 - p)² = 0.79 of p = σ(f), f ~ N(0, 9)
    assert alike.mean() + 0.05 < nearest < 0.85
