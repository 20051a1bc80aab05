import json

import pytest
from hostile import NAMES, Reader

from gpbench.report.page.markup import Markup, data_block, element, join, raw


@pytest.mark.parametrize("name", NAMES)
def test_text_and_attributes_stay_what_they_are(name):
    found = Reader(element("p", name, title=name))
    assert [tag for tag, _ in found.elements] == ["p"]
    printed = name.replace("\u2028", " ").replace("\u202e", "\ufffd").replace("\x00", "\ufffd")
    assert "".join(found.texts) == printed
    assert found.all("p") == [{"title": printed}]


@pytest.mark.parametrize("name", NAMES)
def test_data_cannot_end_its_element(name):
    block = data_block("data", {name: [name]})
    assert Reader(block).elements == [("script", {"type": "application/json", "id": "data"})]
    assert json.loads(block[block.index(">") + 1 : block.rindex("<")]) == {name: [name]}
    assert block.count("<") == 2


def test_markup_is_not_escaped_twice():
    assert element("div", element("b", "a & b"), "c < d") == "<div><b>a &amp; b</b>c &lt; d</div>"
    assert join("<", Markup("<br>")) == "&lt;<br>"


def test_attributes():
    assert element("input", class_="a", data_x="1", checked=True, hidden=False, id=None) == (
        '<input class="a" data-x="1" checked>'
    )
    assert element("meta", name="viewport") == '<meta name="viewport">'


def test_our_own_files_cannot_end_their_element():
    with pytest.raises(AssertionError):
        raw("</script>")


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="Out of range"):
        data_block("data", float("nan"))
