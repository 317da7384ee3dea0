"""Files and bytes as results: by reference, and only of the workspace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_toolset import (
    Audio,
    Embedded,
    File,
    Image,
    ResultNotJson,
    describe,
    set_context,
    to_json,
)
from covalt_toolset.files import EMBEDDED_SCHEMA, FILE_SCHEMA, save
from covalt_toolset.invoke import result_problems

PICTURE = b"\x89PNG\r\n"


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "workspace"
    (made / "out").mkdir(parents=True)
    (made / "out" / "report.pdf").write_bytes(b"%PDF")
    with set_context(workspace=made):
        yield made


def test_file_becomes_a_reference(workspace: Path) -> None:
    expected = {"file": "out/report.pdf", "size": 4, "media_type": "application/pdf"}

    assert to_json(File("out/report.pdf")) == expected
    assert to_json(File(Path("out") / "report.pdf")) == expected
    assert to_json(File(workspace / "out" / "report.pdf")) == expected
    assert to_json({"made": [File("out/../out/report.pdf")]}) == {"made": [expected]}
    (workspace / "latest.pdf").symlink_to("out/report.pdf")
    assert to_json(File("latest.pdf")) == expected


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param("gone.txt", "the workspace has no file 'gone.txt'", id="missing"),
        pytest.param("out", "the workspace has no file 'out'", id="folder"),
        pytest.param("../secret.txt", "'../secret.txt' is outside of the workspace", id="outside"),
        pytest.param("link", "'link' is outside of the workspace", id="link-outside"),
    ],
)
def test_file_outside_the_workspace_is_refused(workspace: Path, path: str, why: str) -> None:
    (workspace.parent / "secret.txt").write_text("secret")
    (workspace / "link").symlink_to(workspace.parent / "secret.txt")

    with pytest.raises(ResultNotJson) as caught:
        to_json({"made": File(path)})

    assert str(caught.value) == f"$.made: {why}"


@pytest.mark.parametrize(
    ("held", "media_type", "ending"),
    [
        pytest.param(Image(PICTURE), "image/png", ".png", id="image"),
        pytest.param(Image(PICTURE, "image/svg+xml"), "image/svg+xml", ".svg", id="other-image"),
        pytest.param(Image(PICTURE, "image/../x"), "image/../x", ".bin", id="no-type"),
        pytest.param(Audio(PICTURE), "audio/wav", ".wav", id="sound"),
    ],
)
def test_images_and_audio_become_files_of_the_workspace(
    workspace: Path, held: Image | Audio, media_type: str, ending: str
) -> None:
    reference = to_json([held])[0]

    assert reference["media_type"] == media_type
    assert reference["file"].endswith(ending)
    assert (workspace / reference["file"]).read_bytes() == PICTURE


def test_annotations_of_files_match_their_results() -> None:
    def report() -> File:
        return File("out/report.pdf")

    def picture() -> bytes:
        return PICTURE

    def drawn() -> list[str | Image | Embedded]:
        return ["a", Image(PICTURE), Embedded("doc://a", "A")]

    assert describe(report).output_schema == FILE_SCHEMA
    schema = describe(drawn).output_schema
    assert schema is not None
    assert schema["items"]["anyOf"] == [{"type": "string"}, FILE_SCHEMA, EMBEDDED_SCHEMA]
    assert result_problems(drawn, to_json(drawn())) == []
    assert result_problems(report, to_json(report())) == []
    assert result_problems(picture, to_json(picture(), keep=save)) == []
    assert result_problems(picture, 1) != []
