"""The models of files: full examples come back unchanged, and unknown keys are refused."""

import importlib
import inspect
import pkgutil

import jsonschema_rs
import pytest

from covalt_git import models, yaml_text
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.sources.tool_lock import ToolLock
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.problems import codes
from covalt_git.problems.explain import titles
from tests.tables import tables

TABLES = {
    name: dict(table) if isinstance(table, list) else table
    for name, table in tables(__file__).items()
}
MODELS: dict[str, type[StrictModel]] = {
    "toolset": ToolsetManifest,
    "state": ToolsetState,
    "lock": ToolLock,
    "covalt": ProjectConfig,
}
each_file = pytest.mark.parametrize("name", MODELS)


def all_models() -> list[type[StrictModel]]:
    """Return every model of the package."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.iter_modules(models.__path__, "covalt_git.models.")
    ]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, StrictModel)
    }
    return sorted(found, key=lambda model: model.__name__)


@each_file
def test_full_example_comes_back_from_yaml(name: str) -> None:
    """An example without some key of its model is too small."""
    model, data = MODELS[name], TABLES[name]
    first = model.model_validate(data)

    text = yaml_text.dump(first.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    assert first.model_dump(mode="json", by_alias=True, exclude_unset=True) == data
    # No file has approvals, the earlier form of rules, beside rules, and that of a node has no other key beside project.
    keys = set(model.model_json_schema(by_alias=True)["properties"]) - {"approvals", "project"}
    assert set(data) == keys
    second = model.model_validate(yaml_text.load(text, "f").data)
    assert second == first
    assert second.model_dump(mode="json", by_alias=True, exclude_defaults=True) == (
        yaml_text.load(text, "f").data
    )


def test_every_model_is_frozen_strict_described_and_has_a_json_schema() -> None:
    for model in all_models():
        name = model.__name__
        assert model.model_config["frozen"] is True, name
        extra = "allow" if name == "LegacyRenderer" else "forbid"
        assert model.model_config["extra"] == extra, name
        if not name.startswith("_"):
            assert (model.__doc__ or "").split("\n")[0].endswith("."), name
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
        )


def test_every_problem_code_has_one_title_and_a_known_range() -> None:
    named = {name: value for name, value in vars(codes).items() if name.isupper()}

    assert sorted(named.values()) == [*titles()]
    assert len(set(named.values())) == len(named) == len(set(titles().values()))
    assert all(code[:3] in {"CG1", "CG2", "CG3", "CG4"} for code in titles())
