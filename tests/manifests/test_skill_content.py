"""Content of a server's skill, which a reviewer must be able to read."""

import hashlib

import pytest

from covalt_git.manifests.skill_content import ChangedSkillError, check_content
from covalt_git.models.sources.skill_entry import SkillEntry, SkillFile

URI = "skill://pdf/SKILL.md"
FRONT = {"name": "pdf", "description": "Fill forms."}


@pytest.mark.parametrize("body", [b"\xff", b"\xed\xa0\x80", b"\xc0\xae"])
def test_a_skill_file_that_is_not_utf_8_is_refused_although_it_has_the_listed_digest(
    body: bytes,
) -> None:
    for text, refused in ((b"Body", False), (body, True)):
        content = b"---\nname: pdf\ndescription: Fill forms.\n---\n" + text
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        entry = SkillEntry(URI, FRONT, (SkillFile(URI, digest, len(content)),))
        if not refused:
            check_content(entry, URI, content)
            continue
        with pytest.raises(ChangedSkillError, match="not UTF-8"):
            check_content(entry, URI, content)
