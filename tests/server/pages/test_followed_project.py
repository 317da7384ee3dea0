"""Pages of a node whose project comes from a git repository: what to do there in place of buttons that would fail."""

from pathlib import Path

import pytest

from covalt_git.operations.project_updates import update
from tests.operations.test_project_updates import Origin, make_node
from tests.server.visitor import Visitor
from tests.trusting import use_config


@pytest.fixture
def visitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Visitor:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    node = make_node(tmp_path / "node", Origin(tmp_path / "origin"))
    update(node)
    return Visitor.of(node)


def test_no_button_changes_files_and_the_pages_say_what_to_do(visitor: Visitor) -> None:
    for address in (
        *("/toolsets", "/toolsets/gear", "/toolsets/gear/files/toolset.yaml", "/config"),
        "/registry",
    ):
        page = visitor.open(address)
        assert page.status == 200
        changing = ("/grants", "/enabled", "/refresh", "/accept", "/remove", "/registry")
        assert not [form for form in page.forms if form.action.endswith(changing)], address
        links = {link.text.strip() for link in page.links}
        assert not links & {"Edit", "Fix...", "Import", "New toolset", "Uninstall..."}, address
        assert "git clone file://" in page.text, address
        assert "push to main" in page.text


@pytest.mark.parametrize(
    "address",
    [
        *("/toolsets/gear/edit/toolset.yaml", "/toolsets/gear/fix", "/config/edit", "/imports"),
        *("/new-toolset", "/toolsets/gear/uninstall", "/toolsets/gear/sources/new"),
    ],
)
def test_an_editor_says_so_before_anything_is_typed(visitor: Visitor, address: str) -> None:
    page = visitor.open(address)
    assert page.status == 409
    assert "Change them in a clone of the repository, and push" in page.text
