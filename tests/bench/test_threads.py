import scipy.linalg
from threadpoolctl import threadpool_info

from gpbench.bench import threads
from gpbench.bench.threads import one_pool_size


def test_libraries_are_warmed_once_for_each_number_of_threads(monkeypatch):
    calls = []
    cholesky = scipy.linalg.cholesky

    def counted(*arguments, **options):
        calls.append({pool["num_threads"] for pool in threadpool_info()})
        return cholesky(*arguments, **options)

    monkeypatch.setattr(scipy.linalg, "cholesky", counted)
    threads._warm.cache_clear()
    for number in (1, 2, 1, 2):
        with one_pool_size(number):
            pass
    assert calls == [{1}, {2}]
