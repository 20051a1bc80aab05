"""Names that want to break out of a page, and a reader of pages that trips over unbalanced tags."""

from html.parser import HTMLParser

NAMES = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<!--<script>",
    "'; window.hacked=1; '",
    "&lt;b&gt; & <b>bold</b>",
    "a\u2028b\u202ec\x00d",
    "javascript:window.hacked=1",
    "]]></style><svg onload=window.hacked=1>",
)
_VOID = {"meta", "img", "br", "hr", "input", "link"}


class Reader(HTMLParser):
    """Elements, their attributes and texts, with every tag closed in its turn."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)

    def all(self, tag):
        return [attributes for each, attributes in self.elements if each == tag]
