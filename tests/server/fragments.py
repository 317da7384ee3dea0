"""Parsed fragment of HTML: its elements, attributes and text, for tests of sanitized HTML."""

from html.parser import HTMLParser

VOID = {"br", "hr", "img"}


class Fragment(HTMLParser):
    """The elements of a fragment with their attributes, and its text; unbalanced elements are reported."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.others: list[str] = []
        self._open: list[str] = []
        self.feed(str(html))  # a Markup would escape what is added to it
        self.close()
        self.others += self._open

    def of(self, name: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of one name."""
        return [attributes for found, attributes in self.elements if found == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.others.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)
