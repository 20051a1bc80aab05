import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy.integrate import quad

from gpbench.errors import DataError, UsageError
from gpbench.model.likelihoods import LIKELIHOODS, Logit, Probit, likelihood, likelihood_from_spec

BOTH = [Logit(), Probit()]


def labels(signs):
    return (np.asarray(signs) > 0).astype(np.int64)


@pytest.mark.parametrize("name", ["klsp_probit_bound_grad", "klsp_probit_whitened_bound_grad", "klsp_logit_bound_grad"])
def test_expectations_and_predictions_of_the_oracles(read_oracle, name):
    inputs, expected = read_oracle(name)
    model = type(likelihood(inputs["likelihood"]))(nodes=120)
    y = labels(inputs["y"])
    e, g, h = model.expectations(y, expected["q_f_mean"], expected["q_f_var"])
    assert e == pytest.approx(expected["E_loglik"], abs=1e-9)
    assert g == pytest.approx(expected["dE_dmu"], abs=1e-9)
    assert h == pytest.approx(expected["dE_dvar"], abs=1e-9)
    mean, var = expected["test_latent_mean"][:, None], expected["test_latent_var"][:, None]
    prediction = model.predict(mean, var)
    assert prediction.probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-9)
    for y_value in (0, 1):
        log_p = model.log_predictive(np.full(len(mean), y_value), mean, var)
        assert np.exp(log_p) == pytest.approx(prediction.probabilities[:, y_value], rel=1e-13)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("klsp_probit_optimum", Probit()),
        ("klsp_logit_optimum", Logit()),
        ("sheth_logit_optimum", Logit()),
        ("xgpc_jj_optimum_a", Logit()),
        ("xgpc_jj_optimum_b", Logit()),
    ],
)
def test_predictive_probabilities_of_the_optima(read_oracle, name, model):
    _, expected = read_oracle(name)
    mean, var = expected["test_latent_mean"][:, None], expected["test_latent_var"][:, None]
    assert model.predict(mean, var).probabilities[:, 1] == pytest.approx(expected["test_prob"], abs=1e-10)


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_derivatives_are_finite_differences(model):
    f = np.array([-30.0, -3.0, -0.2, 0.0, 0.4, 5.0])
    for value in (0, 1):
        y = np.full(f.size, value)
        l1, l2 = model.derivatives(y, f)
        up, down = f + 1e-5, f - 1e-5
        assert l1 == pytest.approx((model.log_density(y, up) - model.log_density(y, down)) / 2e-5, rel=1e-6, abs=1e-9)
        assert l2 == pytest.approx(
            (model.derivatives(y, up)[0] - model.derivatives(y, down)[0]) / 2e-5, rel=1e-6, abs=1e-9
        )


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_expectation_gradients_are_exact_derivatives_of_the_rule(model):
    rng = np.random.default_rng(0)
    mu, var = 3 * rng.normal(size=40), np.exp(rng.uniform(np.log(1e-3), np.log(1e2), 40))
    y = rng.integers(0, 2, 40)
    _, g, h = model.expectations(y, mu, var)
    step = 1e-5
    by_mu = model.expectations(y, mu + step, var)[0] - model.expectations(y, mu - step, var)[0]
    assert g == pytest.approx(by_mu / (2 * step), rel=1e-7, abs=1e-8)
    by_var = model.expectations(y, mu, var * (1 + step))[0] - model.expectations(y, mu, var * (1 - step))[0]
    assert h == pytest.approx(by_var / (2 * step * var), rel=1e-6, abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(-40, 40), log_var=st.floats(np.log(1e-9), np.log(1e3)), y=st.integers(0, 1))
def test_expectations_are_finite_and_concave(mu, log_var, y):
    for model in BOTH:
        e, g, h = model.expectations(np.array([y]), np.array([mu]), np.array([np.exp(log_var)]))
        assert np.isfinite([e, g, h]).all()
        assert e[0] <= 0
        assert g[0] * (2 * y - 1) >= 0
        assert h[0] <= 0


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_no_step_where_the_variance_becomes_small(model):
    mu, y = np.linspace(-5, 5, 11), np.ones(11, dtype=int)
    for small in (0.0, 0.999e-8):
        below, above = model.expectations(y, mu, np.full(11, small)), model.expectations(y, mu, np.full(11, 1.001e-8))
        for a, b in zip(below, above, strict=True):
            assert a == pytest.approx(b, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_far_tails_stay_finite_and_sharp(model):
    f = np.array([-40.0, 40.0, -1000.0, 1000.0])
    ones = np.ones(4, dtype=int)
    log_p = model.log_density(ones, f)
    l1, l2 = model.derivatives(ones, f)
    assert np.isfinite([log_p, l1, l2]).all()
    want = {"logit": -40.0, "probit": -804.6084420137538}[model.name]
    assert log_p[0] == pytest.approx(want, rel=1e-12)
    mean = f[:, None]
    for var in (0.0, 1e-12, 1.0, 1e6):
        score = model.score(ones, mean, np.full((4, 1), var))
        assert all(np.isfinite(part).all() for part in score)
        assert score.values.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-14)
        assert (score.log_density <= 0).all()


def test_probit_prediction_is_the_closed_form():
    rng = np.random.default_rng(1)
    mean, var = 5 * rng.normal(size=(30, 1)), rng.gamma(1.0, 5.0, size=(30, 1))
    z = (mean / np.sqrt(1 + var))[:, 0]
    assert Probit().predict(mean, var).probabilities[:, 1] == pytest.approx(special.ndtr(z), rel=1e-12)
    assert Probit().log_predictive(np.zeros(30, int), mean, var) == pytest.approx(special.log_ndtr(-z), rel=1e-12)


def test_logit_prediction_without_variance_is_the_sigmoid():
    mean = np.linspace(-700, 700, 57)[:, None]
    var = np.zeros_like(mean)
    p = Logit().predict(mean, var).probabilities
    assert p[:, 1] == pytest.approx(special.expit(mean[:, 0]), rel=1e-12, abs=0)
    assert p[:, 0] == pytest.approx(special.expit(-mean[:, 0]), rel=1e-12, abs=0)


@pytest.mark.parametrize(("mean", "var"), [(0.3, 0.5), (-2.0, 7.0), (4.0, 30.0), (-10.0, 400.0)])
def test_logit_prediction_against_adaptive_integration(mean, var):
    root = np.sqrt(var)
    want, _ = quad(
        lambda t: special.expit(mean + root * t) * np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi),
        -12,
        12,
        points=[-mean / root],
        epsabs=1e-13,
        limit=400,
    )
    p = Logit().predict(np.array([[mean]]), np.array([[var]])).probabilities[0]
    assert p[1] == pytest.approx(want, abs=1e-11)
    assert p[0] == pytest.approx(1 - want, abs=1e-11)


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_score_is_made_of_its_parts(model):
    rng = np.random.default_rng(2)
    mean, var = rng.normal(size=(50, 1)), rng.gamma(1.0, 2.0, size=(50, 1))
    y = rng.integers(0, 2, 50)
    score = model.score(y, mean, var)
    assert np.array_equal(score.log_density, model.log_predictive(y, mean, var))
    assert np.array_equal(score.values, model.predict(mean, var).probabilities)
    assert np.array_equal(model.point(mean, var), model.predict(mean, var).point)
    assert np.array_equal(score.error, (score.values.argmax(axis=1) != y).astype(float))


@pytest.mark.parametrize("model", BOTH, ids=lambda m: m.name)
def test_targets_are_checked(model):
    model.check_targets(np.array([0, 1, 1]), 2)
    model.check_targets(np.array([1, 1]), 2)  # a fold may lack a class
    assert model.n_latent(2) == 1
    with pytest.raises(UsageError, match="needs 2 classes; got 3"):
        model.check_targets(np.array([0, 1]), 3)
    with pytest.raises(UsageError, match="needs 2 classes; got 3"):
        model.n_latent(3)
    with pytest.raises(DataError, match="from -1 to 1"):
        model.check_targets(np.array([-1, 1]), 2)
    with pytest.raises(DataError, match="vector of integers"):
        model.check_targets(np.array([0.0, 1.0]), 2)


def test_likelihoods_by_name_and_description():
    for name in LIKELIHOODS.keys() - {"ordinal"}:  # which has no edges of its own
        model = likelihood(name)
        assert model.name == name
        assert set() < model.tasks <= {"binary", "multiclass", "count", "ordinal"}
        assert likelihood_from_spec(model.spec()) == model
    assert likelihood_from_spec({"name": "logit", "nodes": 40}) == Logit(nodes=40)
    with pytest.raises(UsageError, match="did you mean logit"):
        likelihood("logti")
    with pytest.raises(UsageError, match="does not take"):
        likelihood_from_spec({"name": "logit", "slope": 2})
