"""What is in an HTML page: its elements, texts and tables, by section."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "wbr", "link", "img", "br", "hr", "path", "circle"}


@dataclass
class Element:
    """An element with its attributes, children and texts in order."""

    tag: str
    attributes: dict
    content: list = field(default_factory=list)

    def find(self, tag=None, **attributes):
        """Every element below, with a tag and attributes (`class_` for one of its classes)."""
        wanted = attributes.pop("class_", None)
        for one in self.content:
            if isinstance(one, str):
                continue
            fits = tag in {None, one.tag} and attributes.items() <= one.attributes.items()
            if fits and (wanted is None or wanted in one.classes):
                yield one
            yield from one.find(tag, **attributes, **({"class_": wanted} if wanted else {}))

    def one(self, tag=None, **attributes):
        """The first of these."""
        return next(self.find(tag, **attributes))

    @property
    def classes(self):
        return (self.attributes.get("class") or "").split()

    @property
    def text(self):
        """All text, without what is only drawn or only for screen readers."""
        parts = []
        for one in self.content:
            if isinstance(one, str):
                parts.append(one)
            elif one.tag not in {"svg", "script", "style"} and "sr" not in one.classes:
                # Names may break inside; everything else is a word of its own.
                parts.append(one.text if one.tag in {"bdi", "wbr"} else f" {one.text} ")
        return " ".join("".join(parts).split())

    def rows(self):
        """The texts of a table's body, row by row."""
        return [
            [cell.text for cell in row.content if not isinstance(cell, str)]
            for body in self.find("tbody")
            for row in body.find("tr")
        ]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].content.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].content.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"<{self.open[-1].tag}> is closed by </{tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].content.append(data)


def read_page(html):
    """Return the root of a page, whose elements must all be closed."""
    reader = _Reader()
    reader.feed(html.decode() if isinstance(html, bytes) else html)
    assert reader.open == [reader.root], [one.tag for one in reader.open]
    return reader.root


def _title(heading):
    """A heading without what is small below it."""
    kept = [one for one in heading.content if isinstance(one, str) or one.tag != "small"]
    return Element("th", {}, kept).text


def grid_of(table):
    """The cells of a table by row and column heading, as elements."""
    heads = [_title(one) for one in table.one("thead").find("th")]
    found = {}
    for row in table.one("tbody").find("tr"):
        name, *cells = [one for one in row.content if not isinstance(one, str)]
        found[name.one("bdi").text] = dict(zip(heads[1:], cells, strict=False))
    return found
