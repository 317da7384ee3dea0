"""References of MCP clients as atoms: short references by name, which no pattern of a credential splits.

A reference can have the signs that separate a user from a password, and a key from its value: the colon of ``${env:USER}``,
the blanks of ``${{ secrets.KEY }}``.  So each is an atom while a document is searched for credentials, and is itself again after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.credentials.leaks import credentials
from covalt_git.credentials.value_patterns import KINDS_OF_NAMES
from covalt_git.formats.model import with_values
from covalt_git.templating.references import texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.json_values.pointer import Loc

_REFERENCE: Final = re.compile(
    rf"""\$?\$\{{(?:(?:env|secret):[A-Za-z_][\w.]*|(?!env:|secret:|file:)(?:{KINDS_OF_NAMES}):(?:(?!:[-=+?])[^{{}}])+)\}}
      | \$\{{\{{\s*(?:secrets|inputs|env)\.[\w./-]+\s*\}}\}} | (?<![\w$]){{env:[^{{}}:]+}}""",
    re.VERBOSE,
)
"""References with other signs than those of a name.  What has a default or the content of a file can be a credential."""

_BARE: Final = re.compile(r"(?<!\$)\$[A-Za-z_]\w*|(?<!\$)\$\{[A-Za-z_]\w*\}")
_MARK: Final = "\N{CYRILLIC LETTER MULTIOCULAR O}"
"""A letter of names that documents do not have; more of it if one has it."""


class ReferenceAtoms:
    """The atoms of one document.  ``is_bare`` returns whether its client reads ``$NAME`` as a reference at a place."""

    def __init__(self, value: Any, is_bare: Callable[[Loc], bool]) -> None:
        written = [*texts(value)]
        longest = max(
            (len(run) for _, text in written for run in re.findall(f"{_MARK}+", text)), default=0
        )
        self._mark = _MARK * (longest + 1)
        self._references: list[str] = []
        self._numbers: dict[str, int] = {}
        others: dict[Loc, str] = {}
        for loc, text in written:
            if "{" not in text and "$" not in text:
                continue
            other = _REFERENCE.sub(self._atom, text)
            if is_bare(loc):
                other = _BARE.sub(self._atom, other)
            if other != text:
                others[loc] = other
        self.value = with_values(value, others)
        """The document with atoms in place of its references."""

    def restored(self, value: Any) -> Any:
        """Return a document with the references in place of their atoms."""
        if not self._references:
            return value
        others = {
            loc: self._restored_text(text) for loc, text in texts(value) if self._mark in text
        }
        return with_values(value, others)

    def _atom(self, reference: re.Match[str]) -> str:
        text = reference[0]
        if self._mark in text or credentials(text):  # people paste a key in place of its name
            return text
        number = self._numbers.setdefault(text, len(self._references))
        if number == len(self._references):
            self._references.append(text)
        return f"${{{self._mark}{number}}}"

    def _restored_text(self, text: str) -> str:
        return re.sub(
            rf"\$\{{{self._mark}([0-9]+)\}}", lambda atom: self._references[int(atom[1])], text
        )
