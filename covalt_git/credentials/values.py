"""Values of secrets: their sources, and masking of values in everything that is shown, stored or logged.

A value comes from ``$XDG_CONFIG_HOME/covalt-git/secrets.env`` (mode 600, lines ``NAME=value``), else
from the environment, else from the project's ``secret_command``, which may be slow or interrupt the user.
It is read when it is needed and never stored.  :mod:`covalt_git.access` decides whether a toolset may use it.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, quote_plus

from covalt_git.errors import CovaltError
from covalt_git.json_values import leaves
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from covalt_git.templating.references import Place

MASK = "***"
SHORTEST = 4
"""Shorter values are not masked: they occur in ordinary words, and protect nothing."""

_LEAST_OF_A_PART = 8
"""Characters of a value next to a cut that are masked: a message may be shortened before it is masked."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}(?:://|%3[Aa]%2[Ff]%2[Ff])")
_CUT = re.compile(r"…|\.\.\.")
_CUT_AFTER = re.compile(r"\ufffd?\n?(?:…|\.\.\.)")
_CUT_BEFORE = re.compile(r"(?:…|\.\.\.)\n?\ufffd{0,3}\Z")
_WORD = re.compile(r"""[^\s"'=:,;]{12,}=*""")
_PASSWORD = re.compile(
    r"""(?i)(?:password|passwd|pwd|secret|token)["']?[\s=:]+["']?([^\s"']{8,})"""
)
_HEADING = re.compile(r"-----.*-----|\[[^\]]*\]|.*:")
"""Lines of a file that are no secret: the armour of a key, a section, a key of YAML without its value."""

ENTRY = r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*"
"""A line of the secrets file with a value."""

_SAYS_SO = (
    r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:_|$)"
)
"""Names of environment variables that hold secrets."""

_QUOTES = ("'", '"')


SHORTEST_SEARCHED = 6
"""Shorter values of secrets are not searched in files: words such as ``true`` are in many."""


class SecretsFileError(CovaltError):
    """The secrets file cannot be used: other users may read it, or a line is malformed."""

    code = "secrets_file"


@dataclass(frozen=True, slots=True)
class SecretStore:
    """Lookup of values: environment variables, the secrets file, and ``ask`` for others."""

    environment: Mapping[str, str] = field(repr=False)
    file: Path | None = None
    ask: Callable[[str], str | None] | None = field(default=None, repr=False)

    @classmethod
    def of_this_machine(cls, ask: Callable[[str], str | None] | None = None) -> SecretStore:
        """Return the store of the user who runs this process."""
        return cls(os.environ, user_folder() / "secrets.env", ask)

    def value(self, name: str, place: Place = "any") -> str | None:
        """Return the value of a name; None if it is not set.

        Raises:
            SecretsFileError: if the file has to be read and cannot be used.
            CovaltError: as ``ask``.
        """
        if place != "env" and self.file is not None:
            value = _read(self.file).get(name)
            if value is not None:
                return value
        # The command last: it may be slow, or interrupt the user.
        if name in self.environment or place == "env" or self.ask is None:
            return self.environment.get(name)
        return self.ask(name)

    def source(self, name: str) -> Literal["file", "environment"] | None:
        """Return where the value of a name is set; None if only ``ask`` may have it.

        Raises:
            SecretsFileError: if the file cannot be used.
        """
        if self.file is not None and name in _read(self.file):
            return "file"
        return "environment" if name in self.environment else None

    def file_error(self) -> SecretsFileError | None:
        """Return why the file cannot be used; None if it can, or does not exist."""
        try:
            _ = self.file is not None and _read(self.file)
        except SecretsFileError as error:
            return error
        return None

    def how_to_set(self, name: str) -> str:
        """Return what a user does to set the value of a name."""
        return f"covalt-git secret set {name}" if self.file else f"export {name}=..."

    def known(self) -> dict[str, str]:
        """Return the secrets that masks hide: all of the file, and variables with names of secrets.

        ``ask`` is not called: it may interrupt the user for names that are not needed.

        Raises:
            SecretsFileError: if the file cannot be used.
        """
        variables = {
            name: value for name, value in self.environment.items() if re.search(_SAYS_SO, name)
        }
        return variables | ({} if self.file is None else _read(self.file))


class Mask:
    """Replaces values in what is shown, stored or logged, including their common encodings."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = {part for value in set(values) for part in (value, *_parts(value))}
        forms = {form for value in parts if len(value) >= SHORTEST for form in _forms(value)}
        # The longest first: a short value in a long one would leave the rest of the long one.
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def also(self, values: Iterable[str]) -> Mask:
        """Return a mask of these values too."""
        mask, more = Mask(), Mask(values)
        forms = {*self._forms, *more._forms}
        mask._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        return mask

    def __repr__(self) -> str:
        return f"Mask({len(self._forms)} forms)"

    def place(self, content: bytes) -> int | None:
        """Return the offset of the first value in ``content``, or None."""
        places = (content.find(_encoded(form)) for form in self._forms)
        return min((place for place in places if place >= 0), default=None)

    def text(self, text: str) -> str:
        """Return ``text`` with the values masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        if _CUT.search(text):
            # What shortened the text did not know the values, so that the rest of one is left beside the cut.
            for form in self._forms:
                # Every address has a scheme, so it is no part of a value.
                scheme = _SCHEME.match(form)
                least = _LEAST_OF_A_PART + (scheme.end() if scheme else 0)
                if len(form) > least:
                    text = _without_rest(text, form, least)
        return text

    def content(self, content: bytes) -> bytes:
        """Return bytes with the values masked, as encoded in UTF-8."""
        for form in self._forms:
            content = content.replace(_encoded(form), MASK.encode())
        return content

    def value(self, value: Any) -> Any:
        """Return a JSON value with the values masked, also in keys; of equal masked keys the last stays."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A number can be a PIN or a key; true and false are no secrets.
            return MASK if json.dumps(value) in self._forms else value
        return value


def _encoded(form: str) -> bytes:
    """Return the bytes of a form; those of a variable that is not UTF-8 are surrogates in its text."""
    try:
        return form.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate of another origin, such as one in JSON
        return form.encode("utf-8", "surrogatepass")


def _without_rest(text: str, form: str, least: int) -> str:
    """Return a text without the beginning of a form before a cut, and without its end after one.

    Beginnings of fewer than ``least`` characters stay.
    """
    start = text.find(form[:least])
    while start >= 0:
        end = start + _same_beginning(form, text[start : start + len(form)])
        if _CUT_AFTER.match(text, end):
            text = text[:start] + MASK + text[end:]
        start = text.find(form[:least], start + 1)
    start = text.find(form[-_LEAST_OF_A_PART:])
    while start >= 0:
        # The end of a value after a cut, which is the mirror of the loop above.
        end = next_end = start + _LEAST_OF_A_PART
        begin = end - _same_beginning(form[::-1], text[max(end - len(form), 0) : end][::-1])
        if _CUT_BEFORE.search(text, max(begin - 8, 0), begin):
            text, next_end = text[:begin] + MASK + text[end:], begin
        start = text.find(form[-_LEAST_OF_A_PART:], next_end)
    return text


def _same_beginning(text: str, other: str) -> int:
    """Return the number of characters that two texts have in common at their beginning."""
    most = min(len(text), len(other))
    return next((at for at in range(most) if text[at] != other[at]), most)


def _parts(value: str) -> Iterable[str]:
    """Yield the parts of a value of several lines, such as a file, that may appear by themselves.

    Logs and notes have single lines of it, and programs read words of it.  The line breaks can be escaped, because a
    line of a secrets file is one value, and the file can be a text in JSON, as a service's account is.
    """
    from covalt_git.credentials.leaks import (  # noqa: PLC0415 - its expressions take 20 ms
        credentials,
        is_token,
    )

    for text in {value, *_texts_in_json(value)}:
        content = text.replace("\\r", "").replace("\\n", "\n") if "\n" not in text else text
        lines = [line.strip() for line in content.splitlines()]
        if len(lines) > 1:
            yield content
            yield "\r\n".join(content.splitlines())
            yield from filter(_is_secret_line, lines)
        if len(lines) > 1 or text != value:
            yield from (credential.value for credential in credentials(content))
            yield from (word for word in _WORD.findall(content) if is_token(word))
            yield from _PASSWORD.findall(content)


def _is_secret_line(line: str) -> bool:
    """Return whether a line of a file is long enough to be a secret, and no heading.

    Shorter ones, such as ``true`` and ``enabled``, are in many results too.
    """
    is_text = re.search(r"\s", line) is None and _HEADING.fullmatch(line) is None
    return is_text and len(line) >= _LEAST_OF_A_PART


def _texts_in_json(value: str) -> list[str]:
    """Return the texts in a value that is an object or a list in JSON."""
    if value.lstrip()[:1] not in {"{", "["}:
        return []
    try:
        return [text for _, text in leaves(json.loads(value)) if isinstance(text, str)]
    except (ValueError, RecursionError):
        return []


def _forms(value: str) -> Iterable[str]:
    """Yield the forms in which a value may appear: unchanged, escaped, encoded, reversed."""
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    # A tool that wants to pass a secret on reverses it; what else it can do, no mask can know.
    yield value[::-1]
    for escaped in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield escaped
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), escaped)
    for document in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield document
        yield json.dumps(document, ensure_ascii=False)[1:-1]  # a document as a text of another one
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield raw.hex()
    yield raw.hex().upper()
    for padding in range(3):
        # In a longer encoded text, the first and last characters also depend on the text around the value.
        encoded = base64.b64encode(b"\0" * padding + raw).decode().rstrip("=")
        inner = encoded[(0, 2, 3)[padding] :]
        if (padding + len(raw)) % 3:
            inner = inner[:-1]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")


def _read(file: Path) -> dict[str, str]:
    return dict(_entries(file, read_private(file, SecretsFileError) or ""))


def _entries(file: Path, text: str) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = re.fullmatch(ENTRY, line)
        if entry is None:
            raise SecretsFileError(  # never the line itself: it may be a secret
                f"line {number} of {str(file)!r} is not NAME=value", hint=f"edit {file}"
            )
        value = entry["value"]
        if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
            value = value[1:-1]
        yield entry["name"], value
