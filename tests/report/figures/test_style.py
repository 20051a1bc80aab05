import pytest
from matplotlib.colors import to_rgb

from gpbench.bench.methods import methods
from gpbench.report.figures.style import STYLES, styles

FIGURES = {
    "wenzel2019": ["x-gpc", "svgpc", "epgpc", "gibbs", "linear"],
    "hensman2015": ["klsp", "mfsp", "gfitc", "kl", "ep", "klsp-sgd", "linear"],
    "villacampa2017": ["gfitc", "ep-mgpc", "sep-mgpc", "vi-mgpc", "linear"],
    "izmailov2016": ["vi-jj", "vi-taylor", "vi-jj-hybrid", "vi-jj-full", "svi-adadelta", "klsp-batch-z-fixed"],
    "sheth2015": ["gvi-fixed-point", "gvi-gradient", "gvi-dual", "gvi-sgd"],
}


@pytest.mark.parametrize("paper", FIGURES)
def test_methods_of_a_paper_differ_in_colour(paper):
    found = styles((name, name) for name in FIGURES[paper])
    assert len({style.color for style in found.values()}) == len(found)


def test_no_two_methods_look_the_same():
    assert len(set(STYLES.values())) == len(STYLES)
    assert set(STYLES) == set(methods()), "each built-in method's style is written down"


@pytest.mark.parametrize("paper", FIGURES)
def test_in_a_paper_s_company_a_style_is_what_it_is_alone(paper):
    alone = {name: styles([(name, name)])[name] for name in FIGURES[paper]}
    assert styles((name, name) for name in FIGURES[paper]) == alone


def test_methods_of_two_papers_differ_in_line_at_least():
    found = styles((name, name) for name in ("x-gpc", "vi-mgpc", "gvi-fixed-point", "gpytorch-pg"))
    assert {style.color for style in found.values()} == {"#0072b2"}
    assert len({style.line for style in found.values()}) == 4
    assert found["gvi-fixed-point"].line == "-"


def test_a_stranger_takes_no_colour_that_is_taken():
    found = styles([("x-gpc", "x-gpc"), ("svgpc", "svgpc"), *((name, name) for name in "abcde")])
    assert len({style.color for style in found.values()}) == 7


def test_colours_show_on_white():
    for color in {style.color for style in STYLES.values()}:
        red, green, blue = to_rgb(color)
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.72


def test_variants_share_the_colour_and_differ_in_lightness_and_line():
    found = styles([("x-gpc", "x-gpc (inducing=16)"), ("x-gpc", "x-gpc (inducing=100)")])
    dark, light = found["x-gpc (inducing=16)"], found["x-gpc (inducing=100)"]
    assert dark.color == "#0072b2"
    assert sum(to_rgb(light.color)) > sum(to_rgb(dark.color))
    assert light.line != dark.line
