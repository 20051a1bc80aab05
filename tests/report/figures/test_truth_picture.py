from dataclasses import fields

from gpbench.report.figures.truth import PANELS, picture
from gpbench.report.tables.truth import Row

PLAN = """
title = "T"
datasets = ["twonorm-gen"]
[methods.pep]
label = "pep, power 0"
power = 0.0
[methods.ep]
"""


def test_a_method_whose_label_has_a_comma_is_drawn(ran):
    found = ran(PLAN, lambda _: [{}])
    rows = []
    for cell in found.results:
        known = {"problem": "twonorm", "link": "logit", "label": cell.shown.variant, "method": cell.method, "m": 4}
        rows.append(Row(**dict.fromkeys((each.name for each in fields(Row)), 0.5) | known | {"whole": True}))
    drawn = picture(found, rows)
    assert [len(ax.lines) for ax in drawn.axes] == [2] * len(PANELS)
    assert [text.get_text() for text in drawn.legends[0].get_texts()][:2] == ["pep, power 0", "ep"]
