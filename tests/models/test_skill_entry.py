"""URIs of a skill's files, which each program must read alike."""

from urllib.parse import quote

import pytest

from covalt_git.models.sources.skill_entry import BadSkillError, parsed_entry, unportable_files
from covalt_git.text import display

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
        ["a/a", "a/%61"],
        ["x%ff"],
        ["x%ff", "x%fe"],
        ["%C3%A9.md", "e%CC%81.md"],
        ["%C3%A9.md", "%c3%a9.md"],
        ["SKILL%E2%80%8B.md"],
        ["a.md", "a%E2%80%AE.md"],
        ["%F0%9F%91%A9%E2%80%8D%F0%9F%92%BB", "%F0%9F%91%A9%F0%9F%92%BB"],
        ["ss", "%C3%9F"],
        ["~", "%7E"],
        ["SKILL.md."],
        ["SKILL.md%20."],
        ["SKILL.md%C2%A0"],
        ["SKILL.md%3A%3A$DATA"],
        ["a./b", "a/b"],
        [".git/config"],
        ["d/git~1/hooks/pre-commit"],
        ["%C3%A9" * 128],
    ],
)
def test_a_file_with_another_spelling_of_a_name_is_refused(others: list[str]) -> None:
    with pytest.raises(BadSkillError):
        parsed_entry(entry(*(f"{ROOT}/{other}" for other in others)))


@pytest.mark.parametrize(
    "names",
    [
        ["👩\u200d💻.md", "❤️.md", "\u0645\u06cc\u200c\u062e.md"],
        ["at 1.00.00\u202fPM.png", "a\u3000b"],
        ["x²", "x2", "①", "1"],
        ["a\u202e.md"],
    ],
)
def test_legal_names_of_files_are_accepted_and_shown_differently(names: list[str]) -> None:
    files = parsed_entry(entry(*(f"{ROOT}/{quote(name)}" for name in names))).paths
    assert [*files] == ["SKILL.md", *names]
    assert len({*map(display.in_line, files)}) == len(files)


def test_names_that_some_systems_cannot_write_are_accepted_and_reported() -> None:
    names = ["nul.txt", "a.md.", "b ", "c\u00a0", "a:b", "d.md"]
    listed = parsed_entry(entry(*(f"{ROOT}/{quote(name)}" for name in names)))
    assert [*unportable_files(listed)] == names[:-1]


def test_a_file_may_have_an_escape_that_its_uri_does_not_need() -> None:
    assert [*parsed_entry(entry(f"{ROOT}/a%7Eb")).paths] == ["SKILL.md", "a~b"]


def test_a_skill_with_large_front_matter_is_refused() -> None:
    large = entry() | {"frontmatter": {"name": "pdf", "description": "x" * 70_000}}
    with pytest.raises(BadSkillError, match="its front matter has 70,"):
        parsed_entry(large)
    # Bytes of UTF-8, not of escapes.
    parsed_entry(entry() | {"frontmatter": {"name": "pdf", "description": "說" * 20_000}})


@pytest.mark.parametrize("levels", [70, 900, 100_000])
def test_a_skill_with_deep_front_matter_is_refused(levels: int) -> None:
    deep: object = {}
    for _ in range(levels):
        deep = {"a": deep}
    front = {"name": "pdf", "description": "x", "metadata": deep}
    with pytest.raises(BadSkillError, match="more than 50 lists and objects"):
        parsed_entry(entry() | {"frontmatter": front})


def test_names_of_files_are_decoded() -> None:
    listed = parsed_entry(entry(f"{ROOT}/a%20b%25.md", f"{ROOT}/d/%C3%A9!(1).md"))
    assert [*listed.paths] == ["SKILL.md", "a b%.md", "d/é!(1).md"]
