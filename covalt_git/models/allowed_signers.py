"""Parser of OpenSSH's allowed-signers lines, which ``signers`` in ``covalt.yaml`` contains.

``ssh-keygen`` ignores invalid lines without an error.  This parser reports them; it verifies no
signature.

Format: ssh-keygen(1), ALLOWED SIGNERS; the keys in it, RFC 4253, section 6.6.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from covalt_git.text import display
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMESPACE = "covalt-git"
"""The SSH signature namespace of bundles: signatures of git commits or mails do not count."""

_LINE = r"""(?x)(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"]+))[ ]+
    (?:(?P<options>(?:[^\s"]|"[^"]*")+)[ ]+)??
    (?P<type>[a-z0-9][a-z0-9@.-]*)[ ]+(?P<key>[A-Za-z0-9+/]+=*)(?:[ ]+.*)?"""
_OPTION = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>[^"]*)")?(?:,|$)', re.IGNORECASE)
_KEY_FIRST = r"(?:ssh|ecdsa|sk)-\S+ +AAAA"
_TIMES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_WITH_VALUE = ("namespaces", "valid-after", "valid-before")
_EXAMPLE = "ann@example.com ssh-ed25519 AAAA..."


class BadSignerLineError(ValueError):
    """A line is invalid, or its key cannot sign bundles."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """One line: the names of a signer, the key, and the options."""

    principals: str
    key: bytes
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, line: str, namespace: str = NAMESPACE) -> AllowedSigner:
        """Parse a line, whose key signs for a namespace.

        Raises:
            BadSignerLineError: when it is invalid, or its key cannot sign for the namespace.
        """
        line = line.strip()
        if not display.is_shown(line):
            raise BadSignerLineError(
                "must be one line, without control characters", "start each line with `- `"
            )
        # A line of a .pub file: ssh-keygen would take the type of the key for the name, and find no key.
        if re.match(_KEY_FIRST, line):
            raise BadSignerLineError(
                "has no name before the key", f"write NAME {shorten(line, 24)}"
            )
        match = re.fullmatch(_LINE, line)
        if match is None or line.startswith("#"):
            raise BadSignerLineError(
                "is not in OpenSSH's allowed-signers format", f"write {_EXAMPLE}"
            )
        return cls(
            principals=match["quoted"] or match["plain"],
            key=_key(match["type"], match["key"]),
            options=_options(match["options"] or "", namespace),
        )


def _key(kind: str, text: str) -> bytes:
    hint = "copy it from the file that ends in .pub"
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise BadSignerLineError("has an incomplete key", hint) from None
    parts = wire_strings(key)
    if parts is None:
        raise BadSignerLineError("has an incomplete key", hint)
    if parts[0] != kind.encode() or len(parts) == 1:
        raise BadSignerLineError(f"has a key of another type than {kind}", hint)
    return key


def wire_strings(blob: bytes) -> list[bytes] | None:
    """Return the strings of an SSH message, or None if it does not consist of strings.

    Format: RFC 4251, section 5.
    """
    strings, at = [], 0
    while at < len(blob):
        begins = at + 4
        at = begins + int.from_bytes(blob[at:begins])
        if at > len(blob):
            return None
        strings.append(blob[begins:at])
    return strings or None


def _options(text: str, namespace: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        option = _OPTION.match(text, at)
        name = option["name"].lower() if option else ""
        with_value = option is not None and option["value"] is not None
        if option is None or name in options or with_value != (name in _WITH_VALUE):
            raise BadSignerLineError(
                f"has invalid options: {text[at:]!r}",
                'write cert-authority, valid-after="20260101" or valid-before="20270101"',
            )
        if not with_value and name != "cert-authority":
            raise BadSignerLineError(f"has an unknown option: {name!r}", "remove it")
        options[name] = option["value"] or ""
        at = option.end()
    _check_times(options)
    # ssh-keygen would report each signature of such a signer as that of a stranger.
    namespaces = options.get("namespaces")
    if namespaces is not None and not _lists(namespaces, namespace):
        users = "bundles use" if namespace == NAMESPACE else "this is for"
        raise BadSignerLineError(
            f"allows only the namespaces {namespaces!r}, but {users} {namespace}",
            f'write namespaces="{namespace}"',
        )
    return options


def _check_times(options: Mapping[str, str]) -> None:
    times = []
    for name in ("valid-after", "valid-before"):
        if name not in options:
            continue
        digits = options[name].removesuffix("Z")
        try:
            times.append(datetime.strptime(digits, _TIMES[len(digits)]))  # noqa: DTZ007 - compared only
        except (KeyError, ValueError):
            raise BadSignerLineError(
                f"has an invalid {name}: {options[name]!r}", f'write {name}="20270101"'
            ) from None
    if times != sorted(times):
        raise BadSignerLineError("has valid-before before valid-after", "exchange the two times")


def _lists(patterns: str, name: str) -> bool:
    """Return whether a list of patterns matches a name; see ssh_config(5), PATTERNS."""
    hits = [
        pattern
        for pattern in patterns.split(",")
        if _pattern(pattern.removeprefix("!")).fullmatch(name)
    ]
    return bool(hits) and not any(pattern.startswith("!") for pattern in hits)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\*", ".*").replace(r"\?", "."))
