"""The sparse KL bound on one vector of all unknowns, for differences and searches."""

from gpbench.optimize.unknowns import Unknowns


class FlatBound:
    """A bound as a function of one vector x of m, L, theta and Z."""

    def __init__(self, bound, Z):
        self.bound, self.unknowns = bound, Unknowns.of(bound.start(Z))
        self.x = self.unknowns.x
        self.q = slice(0, len(Z) + len(Z) ** 2)

    def split(self, x):
        return self.unknowns.values(x)

    def basis(self, x, **options):
        return self.bound.basis(self.split(x), **options)

    def at(self, x, X, y, *, basis, **options):
        return self._flat(self.bound.at(self.split(x), X, y, basis=basis, **options))

    def at_batch(self, x, X, y, *, basis, **options):
        return self._flat(self.bound.at_batch(self.split(x), X, y, basis=basis, **options))

    def _flat(self, at):
        return at._replace(gradient=self.unknowns.gradient(at.gradient))
