"""HTML as a tree, for tests that read figures from pages: by id, by class, as text. Knows no page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "use", "rect", "line", "wbr"})
# Their content is no text of the page.
SILENT = frozenset({"script", "style", "title"})


@dataclass
class Node:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node]:
        """The node and all below it, in the order of the document."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child

    @property
    def text(self) -> str:
        """What a reader sees, with single spaces."""
        return re.sub(r"\s+", " ", "".join(self._texts())).strip()

    def _texts(self) -> Iterator[str]:
        if self.tag in SILENT:
            return
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()
        if self.tag != "wbr":
            yield " " if self.tag in BLOCKS else ""

    def has(self, class_: str) -> bool:
        return class_ in self.attributes.get("class", "").split()

    def all(self, tag: str = "", class_: str = "", **attributes: str) -> list[Node]:
        """Nodes below with that tag, class and attributes; ``_`` in a name stands for ``-``."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            node
            for node in self
            if node is not self
            and (not tag or node.tag == tag)
            and (not class_ or node.has(class_))
            and all(node.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str = "", class_: str = "", **attributes: str) -> Node:
        found = self.all(tag, class_, **attributes)
        assert found, f"no {tag or 'node'} {class_} {attributes}"
        return found[0]

    def rows(self) -> list[list[str]]:
        """Texts of the cells of each table row below, without rows of headings."""
        found = [[cell.text for cell in row.all("td")] for row in self.all("tr")]
        return [row for row in found if row]

    def definitions(self) -> dict[str, str]:
        """Texts of ``dt`` and the ``dd`` that follows."""
        parts = [node for node in self if node.tag in {"dt", "dd"}]
        return {name.text: value.text for name, value in pairwise(parts) if name.tag == "dt" and value.tag == "dd"}


BLOCKS = frozenset(
    [
        "a",
        "b",
        "code",
        "dd",
        "div",
        "dt",
        "h1",
        "h2",
        "h3",
        "li",
        "p",
        "small",
        "span",
        "strong",
        "summary",
        "td",
        "th",
        "time",
        "tr",
    ]
)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("document")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self.open) - 1, 0, -1):
            if self.open[place].tag == tag:
                del self.open[place:]
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(html: str) -> Node:
    parser = _Parser()
    parser.feed(html)
    return parser.root
