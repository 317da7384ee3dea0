"""Check of the files of a server's skill against the entry that the user has accepted (SEP-2640, "Integrity and Verification")."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.manifests.skills import frontmatter_of

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.skill_entry import SkillEntry


class ChangedSkillError(CovaltError):
    """A file of a server's skill that is not the one that the server has listed."""

    code = "definition_changed"
    http_status = 409


def content_bytes(contents: list[JsonObject]) -> bytes:
    """Return the bytes of a file, from the contents of a resource as MCP has them.

    Raises:
        ChangedSkillError: if they are not those of one file.
    """
    first = contents[0] if len(contents) == 1 else {}
    if isinstance(text := first.get("text"), str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(first["blob"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise ChangedSkillError("the server does not return one file for it") from None


def check_content(entry: SkillEntry, uri: str, content: bytes) -> None:
    """Check that content is that of a skill's file; ``SKILL.md`` must be text with the entry's front matter.

    Raises:
        ChangedSkillError: if it is not, or the skill has no file with this URI.
    """
    file = entry.file(uri)
    if file is None:
        raise ChangedSkillError(f"the skill {entry.name!r} has no file {uri}")
    if len(content) != file.size:
        raise ChangedSkillError(
            f"{uri} has {len(content):,} bytes, and its server listed {file.size:,}"
        )
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != file.digest:
        raise ChangedSkillError(f"{uri} has another content than its server listed")
    if uri == entry.uri:
        _check_text(entry, content)


def _check_text(entry: SkillEntry, content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError:
        # No reviewer can read it, but a model may.
        raise ChangedSkillError(f"{entry.uri} is not UTF-8, so its text cannot be shown") from None
    if not _is_same(frontmatter_of(content), entry.frontmatter):
        # A server can list a harmless description beside the digest of a file that has another one.
        raise ChangedSkillError(
            f"the front matter of {entry.uri} is not the one that its server lists"
        )


def _is_same(own: JsonObject | None, listed: JsonObject) -> bool:
    # By digest, because Python takes 1 for true, and 1.0 for 1.
    return own is not None and canonical_json.digest(own) == canonical_json.digest(listed)
