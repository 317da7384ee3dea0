"""Replacement of the credentials in a document by references to secrets, before anything reads it.

A credential is a token of a known format anywhere, or in a connection (headers, variables, arguments,
URLs) a value whose name says that it is one.  Placeholders such as ``<YOUR_API_KEY>`` stay.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from covalt_git.credentials.leaks import MAX_FOUND, credentials
from covalt_git.formats.model import Note, unused, variable_name
from covalt_git.templating.references import references, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values.pointer import Loc

CONNECTIONS: Final = frozenset(
    {"headers", "http_headers", "env", "environment", "server", "auth", "query", "cookies", "oauth"}
)
"""Keys of objects whose values can be credentials because of their names."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|token|secret|passw(?:or)?d|passphrase|api[-_]?key|(?:access|private|auth|account)[-_]?key"
    r"|credential|(?:^|[-_])(?:key|pass|pwd|pat|auth|dsn)(?:$|[-_])",
    re.IGNORECASE,
)
_ALWAYS_SECRET = re.compile(
    r"(?:^|[-_]|(?<=[a-z]))(?:password|passwd|passphrase|client[-_]?secret|api[-_]?key|(?:access|auth)[-_]?token"
    r"|(?:secret|private)[-_]?key)$",
    re.IGNORECASE,
)
"""Keys whose texts are credentials in every object."""

_NOT_SECRET = re.compile(
    r"(?:url|uri|file|path|type|endpoint|env_?var|name|header)$", re.IGNORECASE
)
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_FLAG = re.compile(r"(?P<before>--?(?P<name>[\w-]+)[= ])(?P<value>.+)", re.DOTALL)
_IS_FLAG = re.compile(r"--?[\w-]+")
_HEADER = re.compile(
    r"(?P<before>(?P<name>[\w-]+):\s*(?:(?i:bearer|basic|token)\s+)?)(?P<value>\S.*)", re.DOTALL
)
_PARAMETER = re.compile(r"(?P<before>[?&](?P<name>[\w.-]+)=)(?P<value>[^&#\s]+)")
_REFERENCE = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*|\{env:[^}]*\}|\{\{[^}]*\}\}")
_PLACEHOLDER = re.compile(
    r"<[^<>]*>|\{[\w.-]+\}|true|false|none|null|[\d.]{1,6}|\$args\..*", re.IGNORECASE
)
_NAMING = ("name", "id", "tool_id")
_GENERIC = frozenset(
    {"mcp_servers", "mcpservers", "servers", "mcp", "toolsets", "actions", "tools", "api", "http"}
)


def is_literal(text: str) -> bool:
    """Return whether a value of a connection is text of its own, not a reference or a placeholder."""
    rest = _SCHEME.sub("", text, count=1).strip()
    return bool(rest) and not _REFERENCE.search(rest) and not _PLACEHOLDER.fullmatch(rest)


def replace_credentials(value: Any) -> tuple[Any, list[Note]]:
    """Return a document with references in place of its credentials, and what was replaced."""
    replacer = _Replacer(_tokens(value))
    return replacer.replaced(value, (), (), ""), replacer.found


def _tokens(value: Any) -> list[str]:
    """Return the values that look like credentials, the longest first.

    One search in all of a document takes a hundredth of a search in each of its texts.
    """
    found = credentials(json.dumps(value, ensure_ascii=False))
    if len(found) >= MAX_FOUND:
        found += [one for _, text in texts(value) for one in credentials(text)]
    return sorted({one.value for one in found}, key=lambda one: (-len(one), one))


class _Replacer:
    def __init__(self, tokens: list[str]) -> None:
        self.found: list[Note] = []
        self._tokens = tokens
        self._names: dict[str, str] = {}

    def replaced(self, value: Any, loc: Loc, owners: tuple[str, ...], above: str) -> Any:
        """Return a part with references; ``owners`` are the names around it, ``above`` its object's key."""
        if isinstance(value, str):
            return self._text(value, loc, owners, above)
        if isinstance(value, dict):
            naming = next((value[key] for key in _NAMING if isinstance(value.get(key), str)), "")
            inner = (*owners, naming) if naming else owners
            return {
                key: self.replaced(
                    one, (*loc, key), (*inner, *_owner(key, one)), _context(key, above)
                )
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [
                self._argument(value, position, (*loc, position), owners)
                if above == "args" and self._follows_flag(value, position)
                else self.replaced(one, (*loc, position), owners, above)
                for position, one in enumerate(value)
            ]
        return value

    def _argument(self, items: list[str], position: int, loc: Loc, owners: tuple[str, ...]) -> str:
        """Return the reference to an argument that follows its flag, as in ``--token VALUE``."""
        return self._note(items[position], loc, owners, items[position - 1].lstrip("-"))

    @staticmethod
    def _follows_flag(items: list[Any], position: int) -> bool:
        flag, value = (items[position - 1] if position else ""), items[position]
        if not isinstance(flag, str) or not isinstance(value, str) or value.startswith("-"):
            return False
        return bool(_IS_FLAG.fullmatch(flag)) and _is_secret(flag) and is_literal(value)

    def _text(self, text: str, loc: Loc, owners: tuple[str, ...], above: str) -> str:
        name = next((part for part in reversed(loc) if isinstance(part, str)), "")
        is_secret = above in CONNECTIONS and _is_secret(name)
        if (is_secret or _ALWAYS_SECRET.search(name)) and is_literal(text):
            scheme = _SCHEME.match(text)
            begins = scheme[0] if scheme else ""
            return begins + self._note(text[len(begins) :], loc, owners, name)
        if "://" in text and "@" in text and urlsplit_password(text):
            return self._note(
                text, loc, owners, f"{name}_url" if not name.lower().endswith("url") else name
            )
        if above == "args":
            for pattern in (_FLAG, _HEADER):
                text = self._matched(pattern, text, loc, owners)
        if "://" in text:
            text = self._matched(_PARAMETER, text, loc, owners)
        for one in self._tokens:
            if one in text:
                text = text.replace(one, self._note(one, loc, owners, name))
        return text

    def _matched(
        self, pattern: re.Pattern[str], text: str, loc: Loc, owners: tuple[str, ...]
    ) -> str:
        def reference(match: re.Match[str]) -> str:
            if not _is_secret(match["name"]) or not is_literal(match["value"]):
                return match[0]
            return match["before"] + self._note(match["value"], loc, owners, match["name"])

        return pattern.sub(reference, text)

    def _note(self, value: str, loc: Loc, owners: tuple[str, ...], name: str) -> str:
        """Return the reference to a credential; equal credentials have one name."""
        if value not in self._names:
            name = unused(_secret_name(owners, name, loc), self._names.values(), "_")
            self._names[value] = name
        found = self._names[value]
        message = f"the credential is not copied: the output refers to the secret {found}"
        self.found.append(Note(loc, message, found))
        return f"${{{found}}}"


def urlsplit_password(text: str) -> bool:
    """Return whether a text has a URL with a literal password."""
    for word in text.split():
        try:
            password = urlsplit(word).password
        except ValueError:
            continue
        if password and is_literal(password):
            return True
    return False


def _owner(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and key.lower() not in _GENERIC | CONNECTIONS:
        yield key


def _context(key: str, above: str) -> str:
    if key in CONNECTIONS or key in {"args", "command"}:
        return "args" if key == "command" else key
    return above if above in CONNECTIONS else key


def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def _secret_name(owners: tuple[str, ...], name: str, loc: Loc) -> str:
    """Return a name for a secret: that of its variable, or of its owner and its header."""
    if any(part in {"env", "environment"} for part in loc) and re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    owner = owners[-1] if owners else ""
    word = "token" if name.lower() in {"authorization", "proxy-authorization"} else name
    return variable_name(owner, word)


def references_of(value: Any) -> list[str]:
    """Return the names of the secrets and variables that the texts of a value refer to, sorted."""
    return sorted({one.name for _, one in references(value)})
