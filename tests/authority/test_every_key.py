"""A change of every key that users can write is reported as authority, or ``keys.yaml`` says that it is not."""

from pathlib import Path

import pytest
import yaml

from covalt_git.models import project_config, toolset_manifest, toolset_state

KEYS = yaml.load(
    Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_decided(name: str) -> None:
    models = vars(project_config) | vars(toolset_manifest) | vars(toolset_state)

    assert sorted(models[name].model_fields) == sorted(
        key for keys in KEYS[name].values() for key in keys
    )
