import pytest
from pydantic import ValidationError

from covalt_git.models.project_config import ProjectConfig

_URL = "https://git.example.com/team/project.git"


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ({"url": "ext::sh -c date"}, "must begin with"),
        ({"url": "-u/srv"}, "must begin with"),
        ({"url": "/srv/project"}, "must begin with"),
        ({"url": "ssh://-oProxyCommand=date/p"}, "no valid host"),
        ({"url": "https://ann:word@git.example.com/p"}, "user or a password"),
        ({"url": _URL, "ref": "--upload-pack=date"}, "not the name"),
        ({"url": _URL, "ref": "main:refs/heads/x"}, "not the name"),
        ({"url": _URL, "ref": "../x"}, "not the name"),
        ({"url": _URL, "ref": "a b"}, "not the name"),
        ({"url": _URL, "username": "ann"}, "used together"),
        ({"url": _URL, "username": "ann", "password": "word"}, "name of a secret"),
    ],
)
def test_a_source_that_could_do_more_than_fetch_is_refused(
    source: dict[str, str], part: str
) -> None:
    with pytest.raises(ValidationError, match=part):
        ProjectConfig.model_validate({"version": 1, "project": source})


@pytest.mark.parametrize("ref", ["main", "release/1.2", "v1.0.0-rc+1", "0" * 40, "refs/heads/x"])
def test_branches_tags_and_commits_are_refs(ref: str) -> None:
    config = ProjectConfig.model_validate({"version": 1, "project": {"url": _URL, "ref": ref}})
    assert config.project is not None
    assert config.project.ref == ref


def test_the_covalt_yaml_of_a_node_has_no_settings_of_the_project() -> None:
    with pytest.raises(ValidationError, match="'rules' is in the covalt"):
        ProjectConfig.model_validate({"version": 1, "project": {"url": _URL}, "rules": []})
