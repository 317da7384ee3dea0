"""Entry of a skill in the MCP extension for skills (SEP-2640): its URI, its front matter, and its files with digests.

The same type describes the skills of our toolsets, which we serve, and those that MCP servers list.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from covalt_git.errors import CovaltError
from covalt_git.json_values.levels import has_more_levels
from covalt_git.paths import check_path, windows_form
from covalt_git.text import display
from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject

EXTENSION = "io.modelcontextprotocol/skills"
"""The identifier of the extension, among the capabilities."""

SKILL = "SKILL.md"
SCHEME = "skill"

MOST_FILES = 512
MOST_BYTES = 16 << 20
"""The most files, and bytes in them, of a skill that each host accepts (specification, "Limits")."""

MOST_FRONT_MATTER = 64 << 10
"""The most bytes of the front matter of a server's skill as JSON in UTF-8: the lock has it, and agents get it with each list."""

_MOST_LEVELS = 50
"""The most lists and objects inside each other in the front matter, which the entry in a lock is around."""

_MOST_NAME = 64
_MOST_URI = 2000
NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"
"""A name of a skill (Agent Skills specification, "name field")."""

# Without a colon in the path: covalt-git serves the file at a URI made of this one (`served_uri`), and with a colon two
# URIs of a server could become the same.
_URI = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://"
    r"(?P<path>(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+"
    r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+)*)"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NEVER_IN_A_SEGMENT = re.compile(r"[\x00-\x1f\x7f/\\]")


class BadSkillError(CovaltError):
    """An entry of a skill that does not have the form of the specification; it is not listed."""

    code = "bad_skill"
    http_status = 502


class SkillFile(NamedTuple):
    """A file of a skill: its URI, ``sha256:`` with the digest of its bytes, and their number."""

    uri: str
    digest: str
    size: int


class SkillEntry(NamedTuple):
    """A skill with all of its files; ``uri`` is that of its ``SKILL.md``."""

    uri: str
    frontmatter: JsonObject
    files: tuple[SkillFile, ...]

    @property
    def name(self) -> str:
        return str(self.frontmatter["name"])

    @property
    def root(self) -> str:
        """The URI of its folder, without a slash at the end."""
        return self.uri.removesuffix(f"/{SKILL}")

    @property
    def as_json(self) -> JsonObject:
        """The entry as the extension has it."""
        files = [file._asdict() for file in self.files]
        return {"uri": self.uri, "frontmatter": self.frontmatter, "resources": files}

    @property
    def paths(self) -> dict[str, SkillFile]:
        """The files by their decoded paths below the folder of the skill."""
        return {unquote(file.uri.removeprefix(f"{self.root}/")): file for file in self.files}

    def file(self, uri: str) -> SkillFile | None:
        """Return the file with a URI; None if the skill does not have it."""
        return next((file for file in self.files if file.uri == uri), None)


def excess(sizes: Iterable[int]) -> str:
    """Return how a skill with files of these sizes exceeds the limits; empty if it does not."""
    every = [*sizes]
    if len(every) > MOST_FILES:
        return f"it has {len(every):,} files, and hosts accept {MOST_FILES}"
    if sum(every) > MOST_BYTES:
        return f"its files have {sum(every):,} bytes, and hosts accept {MOST_BYTES:,}"
    return ""


def parsed_entry(listed: JsonObject) -> SkillEntry:
    """Return the entry of a skill that a server lists.

    Raises:
        BadSkillError: if it does not have the form of the specification, exceeds its limits, or has no digests.
    """
    uri, frontmatter, resources = (listed.get(key) for key in ("uri", "frontmatter", "resources"))
    if not isinstance(uri, str) or not uri.endswith(f"/{SKILL}") or _path_of(uri) is None:
        raise BadSkillError(f"its URI must have the form skill://PATH/NAME/{SKILL}")
    if not isinstance(frontmatter, dict):
        raise BadSkillError("its front matter must be an object")
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or len(name) > _MOST_NAME or not re.fullmatch(NAME, name):
        raise BadSkillError("its name must be lower-case letters and digits, joined by hyphens")
    if not isinstance(description, str) or not description:
        raise BadSkillError("it must have a description")
    if has_more_levels(frontmatter, _MOST_LEVELS):
        raise BadSkillError(
            f"its front matter has more than {_MOST_LEVELS} lists and objects inside each other"
        )
    if (size := json_size(frontmatter)) > MOST_FRONT_MATTER:
        raise BadSkillError(
            f"its front matter has {size:,} bytes, and at most {MOST_FRONT_MATTER:,} are accepted"
        )
    if uri.split("/")[-2] != name:
        raise BadSkillError(f"the last folder of its URI must be its name, {name!r}")
    if resources == "dynamic":
        raise BadSkillError("its files are dynamic, so their content cannot be accepted")
    if not isinstance(resources, list):
        raise BadSkillError("it must list its files")
    entry = SkillEntry(uri, frontmatter, tuple(map(_parsed_file, resources)))
    uris = [file.uri for file in entry.files]
    if uris.count(uri) != 1 or len({*map(compared_uri, uris)}) != len(uris):
        # Otherwise the reviewer could read another file than the model.
        raise BadSkillError(
            f"it must list {SKILL} and each other file once, also for programs that ignore case, escapes of "
            "URIs and characters that are not visible"
        )
    if not all(file.startswith(f"{entry.root}/") for file in uris):
        raise BadSkillError("it lists a file outside of its folder")
    if too_much := excess(file.size for file in entry.files):
        raise BadSkillError(too_much)
    for path in entry.paths:
        # Hosts write the files to a disk, and git runs what is in a folder `.git`.
        verdict = check_path(path)
        if verdict.kind == "refused":
            raise BadSkillError(f"its file {display.shorten(path)!r} is refused: {verdict.reason}")
    return entry


def unportable_files(entry: SkillEntry) -> dict[str, str]:
    """Return why files of a skill cannot be written on every system, by their paths."""
    verdicts = {path: check_path(path) for path in entry.paths}
    return {path: verdict.reason for path, verdict in verdicts.items() if verdict.kind != "good"}


def json_size(value: object) -> int:
    """Return the bytes of a value as JSON in UTF-8, as programs send it."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


def compared_uri(uri: str) -> str:
    """Return a text that is equal for URIs which a program or a file system may take for one file.

    As Windows, case-insensitive folders of ext4 and Apple's file systems compare names: escapes of URIs, case and
    characters that are not visible make no difference, nor do dots at the end and the way in which an accent is written.
    """
    text = windows_form(unquote(uri))
    if not text.isascii():
        text = "".join(c for c in text if display.kind(c) not in {"bidi", "invisible"})
    return normalized("NFC", normalized("NFC", text).casefold())


def served_uri(namespace: str, uri: str) -> str:
    """Return the URI under which we serve a file of a server's skill: below the namespace of the server."""
    scheme, _, path = uri.partition("://")
    below = path if scheme == SCHEME else f"{scheme}:/{path}"
    return f"{SCHEME}://{namespace}/{below}"


def _parsed_file(listed: object) -> SkillFile:
    fields = listed if isinstance(listed, dict) else {}
    uri, digest, size = (fields.get(key) for key in ("uri", "digest", "size"))
    if not isinstance(uri, str) or _path_of(uri) is None:
        raise BadSkillError("a file of it has no URI that all programs read alike")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise BadSkillError(f"the digest of {uri} must be sha256: and 64 hexadecimal digits")
    if type(size) is not int or size < 0:
        raise BadSkillError(f"the size of {uri} must be a number of bytes")
    return SkillFile(uri, digest, size)


def _path_of(uri: str) -> str | None:
    """Return the path of a URI that all parsers read alike; None of any other."""
    parts = _URI.fullmatch(uri) if len(uri) <= _MOST_URI else None
    if parts is None:
        return None
    for segment in parts["path"].split("/"):
        try:
            text = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            return None
        if text in {".", ".."} or _NEVER_IN_A_SEGMENT.search(text):
            return None
    return parts["path"]
