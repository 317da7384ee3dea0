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
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from covalt_git.templating.references import Place

MASK = "***"
SHORTEST = 4
"""Shorter values are not masked: they occur in ordinary words, and protect nothing."""

_LINE = r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*"
_SAYS_SO = (
    r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:_|$)"
)
"""Names of environment variables that hold secrets."""

_QUOTES = ("'", '"')


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
            found = _read(self.file).get(name)
            if found is not None:
                return found
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

    def known(self) -> dict[str, str]:
        """Return the secrets that masks hide: all of the file, and variables with names of secrets.

        ``ask`` is not called: it may interrupt the user for names that are not needed.

        Raises:
            SecretsFileError: if the file cannot be used.
        """
        found = {
            name: value for name, value in self.environment.items() if re.search(_SAYS_SO, name)
        }
        return found | ({} if self.file is None else _read(self.file))


class Mask:
    """Replaces values in what is shown, stored or logged, including their common encodings."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = {part for value in set(values) for part in (value, *_lines(value))}
        forms = {form for value in parts if len(value) >= SHORTEST for form in _forms(value)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"Mask({len(self._forms)} forms)"

    def place(self, content: bytes) -> int | None:
        """Return the offset of the first value in ``content``, or None."""
        found = (content.find(form.encode("utf-8", "surrogatepass")) for form in self._forms)
        return min((place for place in found if place >= 0), default=None)

    def text(self, text: str) -> str:
        """Return ``text`` with the values masked."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def content(self, content: bytes) -> bytes:
        """Return bytes with the values masked, as encoded in UTF-8."""
        for form in self._forms:
            content = content.replace(form.encode(), MASK.encode())
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
            return MASK if json.dumps(value) in self._forms else value
        return value


def _lines(value: str) -> Iterable[str]:
    """Yield the lines of a value that may appear by themselves, as of a key in PEM: logs and notes have single lines."""
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if not re.search(r"\s", line)] if len(lines) > 1 else ()


def _forms(value: str) -> Iterable[str]:
    """Yield the forms in which a value may appear: unchanged, escaped, encoded, reversed."""
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield value[::-1]
    for escaped in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield escaped
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), escaped)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
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
        found = re.fullmatch(_LINE, line)
        if found is None:
            raise SecretsFileError(  # never the line itself: it may be a secret
                f"line {number} of {str(file)!r} is not NAME=value", hint=f"edit {file}"
            )
        value = found["value"]
        if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
            value = value[1:-1]
        yield found["name"], value
