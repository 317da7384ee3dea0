import pytest

from covalt_git.models.project_config import WorkersConfig


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("image-lab.draw", "gpu"),
        ("image-lab.list", "gpu"),
        ("text-kit.read_file", "files"),
        ("text-kit.write_file", ""),
        ("other.draw", ""),
    ],
)
def test_the_first_tag_whose_pattern_matches_a_tool_decides(path: str, tag: str) -> None:
    workers = WorkersConfig.model_validate(
        {"tags": {"gpu": ["image-lab.*"], "files": ["*.list", "text-kit.read_*"]}}
    )
    assert workers.tag_of(path) == tag
