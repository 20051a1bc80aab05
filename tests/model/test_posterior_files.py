"""Saving and loading: the same bits again, nothing unpickled, each broken file named."""

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpbench.errors import DataError, UsageError
from gpbench.model import posterior as module
from gpbench.model.likelihoods import Logit, Probit
from gpbench.model.posterior import Posterior, load_posterior, npz_arrays, register_posterior, write_npz


@pytest.mark.parametrize("form", ["covariance", "precision"])
def test_save_and_load_give_the_same_bits(some_latent, tmp_path, form):
    posterior = Posterior((some_latent(form=form, mean=0.1 + 0.2),), Logit(nodes=33), 2)
    path = tmp_path / "cell.npz"
    posterior.save(path)
    loaded = load_posterior(path)
    X = np.random.default_rng(8).normal(size=(500, 3))
    y = (X[:, 1] > 0).astype(int)
    for got, want in zip(loaded.score(X, y), posterior.score(X, y), strict=True):
        assert np.array_equal(got, want)
    assert loaded.likelihood == Logit(nodes=33)
    assert [file.name for file in tmp_path.iterdir()] == ["cell.npz"]
    again = tmp_path / "again.npz"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_what_cannot_be_written_leaves_what_stood_there_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "cell.npz"
    write_npz(path, {"a": np.ones(2)})
    before = path.read_bytes()

    def full(file, **_):
        file.write(b"half")
        raise error

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(type(error)):
        write_npz(path, {"a": np.zeros(2)})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["cell.npz"]


def test_two_that_write_one_file_at_once_do_not_disturb_each_other(tmp_path, monkeypatch):
    path, savez = tmp_path / "cell.npz", np.savez

    def interrupted(file, **arrays):
        monkeypatch.setattr(np, "savez", savez)
        write_npz(path, {"a": np.zeros(2)})
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", interrupted)
    write_npz(path, {"a": np.ones(2)})
    assert np.load(path)["a"].tolist() == [1, 1]
    assert [file.name for file in tmp_path.iterdir()] == ["cell.npz"]


def test_other_arrays_may_lie_in_the_same_file(some_latent, tmp_path):
    posterior = Posterior((some_latent(),), Probit(), 2)
    path = tmp_path / "both.npz"
    np.savez(path, **posterior.arrays(), probabilities=np.ones(3))
    assert np.array_equal(load_posterior(path).latents[0].m_w, posterior.latents[0].m_w)


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path(BOMB_MARK),))


BOMB_MARK = "gpbench-test-was-unpickled"


def test_pickles_are_never_opened(some_latent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    arrays = Posterior((some_latent(),), Logit(), 2).arrays()
    np.savez(tmp_path / "inside.npz", **(arrays | {"posterior.0.Z": np.array([Bomb()], dtype=object)}))
    np.save(tmp_path / "single.npy", np.array([Bomb()], dtype=object))
    for name in ("plain.npz", "inside.npz", "single.npy"):
        with pytest.raises(DataError, match=f"{name} holds no saved posterior"):
            load_posterior(tmp_path / name)
    assert not Path(BOMB_MARK).exists()


def rewritten(path, **changes):
    """Copy of a saved posterior with another JSON part."""
    arrays = dict(np.load(path))
    meta = json.loads(arrays["posterior.meta"].tobytes())
    arrays["posterior.meta"] = np.frombuffer(json.dumps(meta | changes).encode(), dtype=np.uint8)
    other = path.with_name("rewritten.npz")
    np.savez(other, **arrays)
    return other


def test_broken_files_are_named(some_latent, tmp_path):
    path = tmp_path / "good.npz"
    Posterior((some_latent(),), Logit(), 2).save(path)
    whole = path.read_bytes()
    broken = tmp_path / "broken.npz"
    for content in (b"", b"rubbish", whole[:100], whole[: len(whole) // 2]):
        broken.write_bytes(content)
        with pytest.raises(DataError, match=r"broken\.npz holds no saved posterior"):
            load_posterior(broken)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    broken.write_bytes(bytes(flipped))
    with pytest.raises(DataError, match=r"broken\.npz"):
        load_posterior(broken)
    with pytest.raises(DataError, match=r"missing\.npz"):
        load_posterior(tmp_path / "missing.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(DataError, match=r"other\.npz holds no saved posterior"):
        load_posterior(tmp_path / "other.npz")
    np.save(tmp_path / "one.npy", np.ones(2))
    with pytest.raises(DataError, match="a single array"):
        load_posterior(tmp_path / "one.npy")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("posterior.meta.npy", b"no array")
    with pytest.raises(DataError, match=r"zip\.npz"):
        load_posterior(tmp_path / "zip.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "forest"}, r"of kind 'forest'; known kinds: (.*, )?gp\b"),
        ({"format": 2}, "format 2; this gpbench reads format 1"),
        ({"latents": [{}]}, "broken posterior: KeyError"),
        ({"latents": []}, "needs 1 latent functions; got 0"),
        ({"likelihood": {"name": "cauchit"}}, "unknown likelihood 'cauchit'"),
        ({"likelihood": None}, "broken posterior"),
        ({"classes": "two"}, "broken posterior"),
    ],
)
def test_files_of_others_are_refused_with_the_reason(some_latent, tmp_path, changes, message):
    path = tmp_path / "good.npz"
    Posterior((some_latent(),), Logit(), 2).save(path)
    with pytest.raises(DataError, match=message):
        load_posterior(rewritten(path, **changes))


def test_other_kinds_of_model_register_their_builder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BUILDERS", dict(module._BUILDERS))

    def build(meta, arrays):
        return meta["slope"], arrays["w"]

    register_posterior("line", build)
    register_posterior("line", build)
    with pytest.raises(UsageError, match="'line' exists already"):
        register_posterior("line", module._build_gp)
    path = tmp_path / "line.npz"
    np.savez(path, **npz_arrays("line", {"slope": 0.1}, {"w": np.arange(3.0)}))
    slope, w = load_posterior(path)
    assert slope == 0.1
    assert w.tolist() == [0.0, 1.0, 2.0]


def test_what_json_cannot_hold_is_refused():
    for value in (np.nan, np.ones(2), Logit()):
        with pytest.raises(UsageError, match="what JSON can hold"):
            npz_arrays("line", {"slope": value}, {})
