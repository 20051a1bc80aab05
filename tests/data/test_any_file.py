"""Any file, under any name and options, becomes a data set or is refused in good order. `make fuzz` draws others."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mutants import FILES, PIECES, load_or_refuse, mutated, some_options

from gpbench.data.newrows import new_rows
from gpbench.data.prepared import open_prepared
from gpbench.data.record import Preparation, fitted
from gpbench.data.userfile import load_file
from gpbench.errors import DataError, UsageError


@pytest.mark.parametrize("name", FILES)
@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_files(name, chance):
    load_or_refuse(name, mutated(chance, FILES[name]), some_options(chance))


@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.sampled_from(PIECES), max_size=60).map(lambda parts: "".join(parts).encode()),
    st.randoms(use_true_random=False).map(some_options),
)
@example("t.csv", b"\x1e,1\n\x1e,2\n", {})
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_pieces(name, data, options):
    load_or_refuse(name, data, options)


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "t.csv").write_text("c,a,t\n" + "u,1,0\nv,2,1\n" * 3)
    return load_file(folder / "t.csv", cache=folder), next(folder.glob("files/*"))


@given(st.data())
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_record_is_read_or_refused(prepared, data):
    dataset, folder = prepared
    content = fitted(dataset, rows=np.arange(6)).to_json()
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from([content, content.get("scaling"), content.get("features")]))
        if isinstance(part, dict) and part:
            part[data.draw(st.sampled_from(sorted(part)))] = data.draw(VALUES)
        elif isinstance(part, list) and part:
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(VALUES)
    try:
        record = Preparation.from_json(content)
        new_rows(pd.DataFrame({"c": ["u"], "a": [1.0]}), record)
    except (DataError, UsageError):
        pass
    header = json.loads((folder / "header.json").read_text())
    whole = (folder / "header.json").read_text()
    header[data.draw(st.sampled_from(sorted(header)))] = data.draw(VALUES)
    (folder / "header.json").write_text(json.dumps(header))
    try:
        open_prepared(folder)
    except DataError:
        pass
    finally:
        (folder / "header.json").write_text(whole)
