import sklearn.cluster
from threadpoolctl import threadpool_info

from gpbench.bench import threads
from gpbench.bench.threads import one_pool_size


def test_libraries_are_warmed_once_for_each_number_of_threads(monkeypatch):
    fits = []
    fit = sklearn.cluster.KMeans.fit

    def counted(self, rows):
        fits.append({pool["num_threads"] for pool in threadpool_info()})
        return fit(self, rows)

    monkeypatch.setattr(sklearn.cluster.KMeans, "fit", counted)
    threads._warm.cache_clear()
    for number in (1, 2, 1, 2):
        with one_pool_size(number):
            pass
    assert fits == [{1}, {2}]
