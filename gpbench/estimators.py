"""scikit-learn estimators around gpbench's methods.

    import gpbench

    model = gpbench.GPClassifier(method="pep", inducing=50, random_state=0).fit(X, y)
    model.predict_proba(X_new)

Every setting of the method is a parameter, with the method's own default; ``gpbench list methods`` shows them.
Inputs are scaled as ``gpbench run`` scales them, so that the same rows and seed give the same probabilities as there.
"""

from __future__ import annotations

from contextlib import nullcontext
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from gpbench.bench.choices import Choice, origin_of
from gpbench.bench.fitting import check_finite, fit_rows
from gpbench.bench.methods import method as method_of
from gpbench.bench.resources import check_threads, one_pool_size
from gpbench.data.dataset import MAX_COUNT
from gpbench.data.scaling import Scaling, scaling_of
from gpbench.errors import DataError, PluginError, UsageError, unknown_name
from gpbench.typed import shortened

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from gpbench.bench.method import Method
    from gpbench.model.likelihoods import Prediction
    from gpbench.model.rows import Array
    from gpbench.schemes.base import Setting

__all__ = ["GPClassifier", "GPCounts", "GPOrdinal", "Refused"]

_OWN = ("method", "random_state", "scaling", "max_seconds", "threads")


class Refused(UsageError, ValueError):
    """What an estimator cannot do; a ValueError, as scikit-learn wants it."""


class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the estimators share: parameters from the method's settings, scaling, training.

    Parameters
    ----------
    method : str
        ``gpbench list methods`` shows them.
    random_state : int, RandomState or None
        A whole number is the seed that ``gpbench run --seed`` takes.
    scaling : {"standard", "common", "none"}
        Of the inputs, by the rows of ``fit``.
    max_seconds : float or None
        Training seconds after which the model is what it has come to: the processor's with one thread, else the wall's.
    threads : int or None
        Of BLAS while training and predicting; None leaves the pools as they are.
    **settings
        Of the method.
    """

    def __init__(
        self,
        method: str = "pep",
        *,
        random_state: Any = None,
        scaling: str = "standard",
        max_seconds: float | None = None,
        threads: int | None = 1,
        **settings: Any,
    ) -> None:
        self.method = method
        self.random_state = random_state
        self.scaling = scaling
        self.max_seconds = max_seconds
        self.threads = threads
        self._settings: dict[str, Any] = {}
        self._assign(settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """Every parameter with its value, the method's settings among them."""
        own = {name: getattr(self, name) for name in _OWN}
        defaults = {name: each.default for name, each in self._known().items()}
        return {**own, **defaults, **self._settings}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; with another method, settings that it does not have are forgotten.

        Raises
        ------
        Refused
            The method has no such setting.
        """
        for name in _OWN:
            if name in params:
                setattr(self, name, params.pop(name))
        known = self._known()
        if known:
            self._settings = {name: value for name, value in self._settings.items() if name in known}
        self._assign(params)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        own = {"random_state": None, "scaling": "standard", "max_seconds": None, "threads": 1}
        given = {name: getattr(self, name) for name, value in own.items() if getattr(self, name) != value}
        words = [f"{name}={value!r}" for name, value in ({"method": self.method} | given | self._settings).items()]
        return f"{type(self).__name__}({', '.join(words)})"

    def latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent functions at rows X (n, d), each of shape (n, F).

        Raises
        ------
        Refused
            The method is no Gaussian process.
        NumericalError
            The values of a row are not finite.
        """
        rows = self._rows(X)
        latent = getattr(self.posterior_, "latent", None)
        if latent is None:
            raise Refused(f"method {self.method} has no latent functions")
        with self._pools():
            found: tuple[Array, Array] = latent(rows)
        check_finite(*found, row=_row)
        return found

    def _method(self) -> Method:
        if not isinstance(self.method, str):
            raise Refused(f"method must be the name of a method; got {self.method!r}")
        try:
            return method_of(self.method)
        except (UsageError, PluginError) as error:
            raise Refused(str(error)) from None

    def _known(self) -> dict[str, Setting]:
        """The method's settings; none of a method that there is not, which ``fit`` refuses."""
        try:
            return self._method().settings()
        except Refused:
            return {}

    def _assign(self, settings: dict[str, Any]) -> None:
        known = self._known()
        for name in settings:
            if known and name not in known:
                raise Refused(f"method {self.method}: {unknown_name('setting', name, [*known, *_OWN])}")
        self._settings |= settings

    def _train(self, X: Array, y: npt.NDArray[Any], *, task: str, classes: int) -> None:
        try:
            method = self._method()
            known, given = method.settings(), {name: _plain(value) for name, value in self._settings.items()}
            default = known["inducing"].default if "inducing" in known else ""
            # Few rows are no reason to refuse a default, which scikit-learn's clones name as the text that it is; a
            # number is what the user asked for.
            if str(default).isdecimal() and given.get("inducing", default) == default:
                given["inducing"] = str(min(int(default), len(X)))
            settings = method.resolve(given)
            choice = Choice(method, settings, origin_of(method, settings, given=given))
            scaling = scaling_of(self.scaling, X, rows=np.arange(len(X)))
            if scaling.constant.all():  # nothing is known of any row; the same for all is then right
                scaling = Scaling(scaling.mean, scaling.scale, np.zeros(X.shape[1], dtype=bool))
            with self._pools():
                fit = fit_rows(
                    choice,
                    scaling.apply(X),
                    y,
                    task=task,
                    classes=classes,
                    seed=_seed(self.random_state),
                    seconds=_plain(self.max_seconds),
                    threads=_plain(self.threads),
                )
        except (UsageError, DataError) as error:
            raise Refused(str(error)) from error
        self.scaling_ = scaling
        self.posterior_ = fit.posterior
        self.n_iter_ = max(1, fit.iterations)
        self.stopped_by_ = "seconds" if fit.stopped_by == "on_step" else fit.stopped_by
        self.bound_ = fit.bound

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return self.scaling_.apply(rows)

    def _predict(self, X: Any) -> Prediction:
        rows = self._rows(X)
        with self._pools():
            found: Prediction = self.posterior_.predict(rows)
        check_finite(found.values, row=_row)
        return found

    def _pools(self) -> AbstractContextManager[None]:
        try:
            return nullcontext() if self.threads is None else one_pool_size(check_threads(self.threads))
        except UsageError as error:
            raise Refused(str(error)) from None

    def _refuse(self, others: dict[str, Any]) -> None:
        for name in others:
            if name == "sample_weight":
                raise Refused("gpbench's methods take no sample weights; got sample_weight")
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}")


class _Classes(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Prediction of classes."""

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row of X (n, d); raises as :meth:`predict_proba`."""
        point = self._predict(X).point
        return np.asarray(self.classes_[point])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, C), in the order of ``classes_``.

        Raises
        ------
        NumericalError
            Those of a row are not finite, as of inputs whose squares overflow.
        """
        found = self._predict(X).probabilities
        assert found is not None
        return found

    def decision_function(self, X: Any) -> Array:
        """Log odds (n,) of the second of two classes; log probabilities (n, C) of more; raises as they do."""
        log_p = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def _fit_classes(self, X: Any, y: Any, *, ordinal: bool) -> Self:
        if y is None:  # scikit-learn's words for it
            raise Refused(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        levels = None
        if ordinal:
            y, levels = _ordered(y)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        if ordinal:
            _check_order(y)
        classes, codes = np.unique(y, return_inverse=True)
        if levels is not None:
            classes = levels[classes]
        if len(classes) < 2:
            raise Refused(f"{type(self).__name__} needs two classes or more; got one class, {_plain(classes[0])!r}")
        task = "ordinal" if ordinal else "binary" if len(classes) == 2 else "multiclass"
        if task == "multiclass" and task not in self._method().tasks:
            raise Refused(
                f"Only binary classification is supported by method {self.method}. The type of the target is "
                f"{type_of_target(y)}."
            )
        self.classes_ = classes
        self._train(X, codes, task=task, classes=len(classes))
        return self


class GPClassifier(_Classes):
    """Classification by any method that does it.

    Parameters
    ----------
    method : str
        ``gpbench list methods`` shows them; those of two classes refuse more.
    random_state : int, RandomState or None
        A whole number is the seed that ``gpbench run --seed`` takes.
    scaling : {"standard", "common", "none"}
        Of the inputs, by the rows of ``fit``.
    max_seconds : float or None
        Training seconds after which the model is what it has come to: the processor's with one thread, else the wall's.
    threads : int or None
        Of BLAS while training and predicting; None leaves the pools as they are.
    **settings
        Of the method, such as ``inducing=50`` or ``kernel="matern32-ard"``. Where ``inducing`` is not given, it is the
        method's default or the number of rows, whichever is less.

    Attributes
    ----------
    classes_ : (C,)
    posterior_ : Predictor
        In scaled inputs.
    scaling_ : Scaling
    n_iter_ : int
    stopped_by_ : str
        converged, schedule, iterations, seconds, failed-to-improve or unknown.
    bound_ : float or None
        The objective at the end (nats).
    """

    def fit(self, X: Any, y: Any = None, **others: Any) -> Self:
        """Train on rows X (n, d) with classes y (n,).

        Raises
        ------
        Refused
            Sample weights, one class, more classes or fewer rows than the method can do, or the value of a parameter.
        NumericalError
            Training broke down past every remedy.
        """
        self._refuse(others)
        return self._fit_classes(X, y, ordinal=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = "multiclass" in self._method().tasks
        return tags


class GPOrdinal(_Classes):
    """Classes that have an order: numbers, or the categories of an ordered pandas categorical.

    Parameters and attributes as of :class:`GPClassifier`; ``classes_`` is in that order. Texts are refused, since
    nothing says that low comes before medium and that before high.
    """

    def fit(self, X: Any, y: Any = None, **others: Any) -> Self:
        """Train on rows X (n, d) with ordered classes y (n,).

        Raises
        ------
        Refused
            Classes without an order, and as :meth:`GPClassifier.fit`.
        NumericalError
            Training broke down past every remedy.
        """
        self._refuse(others)
        return self._fit_classes(X, y, ordinal=True)


class GPCounts(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Counts 0, 1, 2 ...; ``predict`` gives their predictive mean. Parameters as of :class:`GPClassifier`."""

    def fit(self, X: Any, y: Any = None, **others: Any) -> Self:
        """Train on rows X (n, d) with counts y (n,).

        Raises
        ------
        Refused
            Sample weights, targets that are no counts, what the method cannot do, or the value of a parameter.
        NumericalError
            Training broke down past every remedy.
        """
        self._refuse(others)
        if y is None:
            raise Refused("This GPCounts estimator requires y to be passed, but the target y is None.")
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        self._train(X, _counts(y), task="count", classes=0)
        return self

    def predict(self, X: Any) -> Array:
        """Predictive mean (n,) of the count at each row of X (n, d).

        Raises
        ------
        NumericalError
            That of a row is not finite.
        """
        return np.asarray(self._predict(X).point)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _ordered(y: Any) -> tuple[Any, npt.NDArray[Any] | None]:
    """Of an ordered pandas categorical the codes and the categories; anything else as it is."""
    dtype: Any = getattr(y, "dtype", None)
    if not getattr(dtype, "ordered", False):
        return y, None
    codes = np.asarray(y.cat.codes if hasattr(y, "cat") else y.codes)
    if (codes < 0).any():
        raise Refused(f"GPOrdinal needs a class for each row; row {int(np.argmax(codes < 0))} has none")
    return codes, np.asarray(dtype.categories)


def _check_order(y: npt.NDArray[Any]) -> None:
    """See that targets have an order of their own.

    Raises
    ------
    Refused
        One is no number.
    """
    numbers = np.array([y.dtype.kind in "iufb" or isinstance(each, Real) for each in y])
    if not numbers.all():
        row = int(np.argmin(numbers))
        raise Refused(
            "GPOrdinal needs classes whose order is known: numbers such as 0, 1, 2, or an ordered pandas categorical, "
            f"pandas.Categorical(y, categories=[lowest, ..., highest], ordered=True); got {_word(y[row])} in row {row}"
        )


def _counts(y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Targets as counts, held to what a file's are.

    Raises
    ------
    Refused
        One is none; the message says which.
    """
    if y.dtype.kind in "iufb":
        fits = (y >= 0) & (y <= MAX_COUNT) & (y == np.floor(y))
    else:
        fits = np.array(
            [isinstance(each, Real) and 0 <= float(each) <= MAX_COUNT and float(each).is_integer() for each in y]
        )
    if not fits.all():
        row = int(np.argmin(fits))
        raise Refused(f"GPCounts needs targets 0, 1, 2 ..., 2^53 at most; got {_word(y[row])} in row {row}")
    return y.astype(np.int64)


def _row(number: int) -> str:
    return f"row {number} of X"


def _word(value: Any) -> str:
    """A value as it was given, for messages: numpy's own numbers as plain ones."""
    return shortened(_plain(value))


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's, which is what methods and limits take."""
    return value.item() if isinstance(value, np.generic) else value


def _seed(state: Any) -> int:
    """A whole number as it is; drawn from anything else that scikit-learn takes for a state."""
    if isinstance(state, int | np.integer) and not isinstance(state, bool):
        return int(state)
    return int(check_random_state(state).randint(2**31 - 1))
