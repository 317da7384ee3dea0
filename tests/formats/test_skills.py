"""Skills become the folder ``skills/`` of a toolset, and come back byte for byte."""

from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, recognition
from covalt_git.formats.documents import BadPartsError
from covalt_git.formats.table import TOOLSET
from covalt_git.formats.toolset_yaml import folder_document
from tests.formats import laws

SKILLS = recognition.find_format("skills")

HEADER = "---\nname: {name}\ndescription: What {name} does.\nallowed-tools: Read\n---\n"
ONE = HEADER.format(name="pdf-tools").encode() + b"# PDF\n"
TWO = HEADER.format(name="mail").replace("\n", "\r\n").encode()
TOKEN = b"Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1gFa9uKe"
REAL = sorted((laws.REPOSITORY.parent / "shared/data/manifests/skills").glob("*.SKILL.md"))


def through_toolset(files: dict[str, bytes]) -> tuple[conversion.Conversion, dict[str, bytes]]:
    """Return the conversion to a toolset, and the skills that come back from it."""
    document = folder_document("mine", files)
    source = recognition.recognize(document)
    assert source is SKILLS
    stored = conversion.convert(document, source, TOOLSET)
    laws.check_account(stored, document.value)
    back = conversion.convert(folder_document("t", stored.files), TOOLSET, SKILLS)
    return stored, back.files


def test_skills_come_back_with_their_files() -> None:
    files = {"pdf-tools/SKILL.md": ONE, "pdf-tools/a/form.bin": b"\0\1", "mail/SKILL.md": TWO}
    stored, back = through_toolset(files)

    assert back == files
    assert stored.lost == ()
    assert set(stored.files) == {"toolset.yaml", *(f"skills/{path}" for path in files)}


def test_one_skill_names_and_describes_its_toolset() -> None:
    stored, back = through_toolset({"SKILL.md": ONE, "form.md": b"form"})
    text = stored.files["toolset.yaml"].decode()

    assert "id: pdf-tools" in text
    assert "description: What pdf-tools does." in text
    assert set(back) == {"pdf-tools/SKILL.md", "pdf-tools/form.md"}


def test_files_outside_of_skills_are_reported() -> None:
    stored, _ = through_toolset({"mail/SKILL.md": TWO, "README.md": b"mine"})

    assert [one.pointer for one in stored.lost] == ["/README.md"]


def test_a_folder_above_skills_names_their_folder() -> None:
    document = folder_document(
        "mine", {"skills/pdf-tools/SKILL.md": ONE, "skills/mail/SKILL.md": TWO}
    )
    with pytest.raises(CovaltError, match="below 'mine/skills'") as caught:
        recognition.recognize(document)
    assert caught.value.hint == "convert that folder: mine/skills"


def test_a_format_without_skills_reports_them() -> None:
    stored, _ = through_toolset({"mail/SKILL.md": TWO})
    folder = folder_document("t", stored.files)
    done = conversion.convert(folder, TOOLSET, recognition.find_format("cjson"))

    assert "/skills~1mail~1SKILL.md" in [one.pointer for one in done.lost]


@pytest.mark.parametrize(
    "content",
    [
        b"# no YAML\n",
        b"---\nname: other\ndescription: d\n---\n",
        b"---\nname: mail\n---\n",
        HEADER.format(name="mail").encode() + b"ghp_" + TOKEN,
    ],
)
def test_invalid_skills_and_credentials_are_refused_with_their_place(content: bytes) -> None:
    with pytest.raises(CovaltError) as caught:
        through_toolset({"mail/SKILL.md": content})

    assert all(one.path == "mine/mail/SKILL.md" and one.line for one in caught.value.problems)
    assert TOKEN.decode() not in str(caught.value.problems)


def test_one_wrong_skill_does_not_stop_its_neighbours() -> None:
    files = {"pdf-tools/SKILL.md": ONE, "mail/SKILL.md": b"# no YAML\n", "mail/form.md": b"form"}
    token = {"leak/SKILL.md": HEADER.format(name="leak").encode() + b"ghp_" + TOKEN}
    with pytest.raises(BadPartsError) as caught:
        folder_document("mine", {**files, **token})
    assert caught.value.parts == ("leak/", "mail/")

    document = folder_document("mine", {**files, **token}, skip_bad=True)
    done = conversion.convert(document, SKILLS, TOOLSET)
    assert set(done.files) == {"toolset.yaml", "skills/pdf-tools/SKILL.md"}
    lost = {one.pointer: one.reason for one in done.lost}
    assert lost["/mail"].startswith("left out: mine/mail/SKILL.md:1:1 ")
    assert TOKEN.decode() not in lost["/leak"]


@pytest.mark.parametrize("path", REAL, ids=lambda one: str(Path(one).name))
def test_real_skills_come_back(path: Path) -> None:
    name = path.name.removesuffix(".SKILL.md")
    content = path.read_bytes()
    folder = "template-skill" if name == "template" else name
    _, back = through_toolset({f"{folder}/SKILL.md": content})

    assert back == {f"{folder}/SKILL.md": content}
