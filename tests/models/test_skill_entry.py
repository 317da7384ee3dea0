"""URIs of a skill's files, which each program must read alike."""

import pytest

from covalt_git.models.sources.skill_entry import BadSkillError, parsed_entry

ROOT = "skill://docs/pdf"
URI = f"{ROOT}/SKILL.md"


def entry(*more: str, uri: str = URI) -> dict[str, object]:
    """Return the entry of a skill with further files."""
    files = [
        {"uri": file, "digest": f"sha256:{number:064x}", "size": 1}
        for number, file in enumerate((uri, *more))
    ]
    front = {"name": "pdf", "description": "Fill forms."}
    return {"uri": uri, "frontmatter": front, "resources": files}


@pytest.mark.parametrize(
    "others",
    [
        ["%53KILL.md"],
        ["SKILL%2Emd"],
        ["skill.md"],
        ["a/%61"],
        ["x%ff"],
        ["x%ff", "x%fe"],
        ["%C3%A9.md", "e%CC%81.md"],
        ["%C3%A9.md", "%c3%a9.md"],
        ["%EF%BC%B3KILL.md"],
        ["a%E2%80%8B.md"],
        ["a%E2%80%AE.md"],
        ["%F0%9D%92%AE%F3%A0%81%81.md"],
    ],
)
def test_a_file_with_another_spelling_of_a_name_is_refused(others: list[str]) -> None:
    with pytest.raises(BadSkillError):
        parsed_entry(entry(*(f"{ROOT}/{other}" for other in others)))


@pytest.mark.parametrize(
    "uri", ["skill://d%6Fcs/pdf/SKILL.md", "skill://d%E2%80%8Bocs/pdf/SKILL.md"]
)
def test_a_folder_with_another_spelling_is_refused(uri: str) -> None:
    with pytest.raises(BadSkillError):
        parsed_entry(entry(uri=uri))


def test_a_skill_with_large_front_matter_is_refused() -> None:
    large = entry() | {"frontmatter": {"name": "pdf", "description": "x" * 70_000}}
    with pytest.raises(BadSkillError, match="its front matter has 70,"):
        parsed_entry(large)


def test_names_of_files_are_decoded() -> None:
    listed = parsed_entry(entry(f"{ROOT}/a%20b%25.md", f"{ROOT}/d/%C3%A9!(1).md"))
    assert [*listed.paths] == ["SKILL.md", "a b%.md", "d/é!(1).md"]
