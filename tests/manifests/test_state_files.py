"""The files that the machine writes: stable, sorted and whole."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.manifests.state_files import HEADER, read_state, write_state
from covalt_git.models.toolset_state import ToolsetState
from tests.tables import tables

FULL: dict[str, Any] = dict(
    tables(str(Path(__file__).parents[1] / "models/test_models_of_files.py"))["state"]
)


def state(**facts: Any) -> ToolsetState:
    return ToolsetState.model_validate(facts)


def test_full_state_is_written_sorted_one_fact_a_line_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "state" / "shop.yaml"

    write_state(file, state(**FULL))

    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [f"# {line}" for line in HEADER.splitlines()]
    keys = [line.partition(":")[0] for line in lines[2:] if line and line[0] != " "]
    assert keys == sorted(FULL)
    assert not any("{" in line or "[" in line for line in lines)
    assert read_state(file, "shop.yaml").value == state(**FULL)


overrides = st.fixed_dictionaries(
    {},
    optional={
        "name_override": st.text(min_size=1, max_size=20),
        "description_override": st.text(max_size=40),
        "renderer": st.sampled_from(["code", "html", "terminal"]),
        "renderer_config": st.dictionaries(st.text(max_size=9), st.text() | st.integers(-9, 9)),
        "requires_confirmation": st.booleans(),
        "enabled": st.booleans(),
    },
)
states = st.fixed_dictionaries(
    {},
    optional={
        "source_type": st.sampled_from(["zip", "local", "url"]),
        "source_ref": st.text(max_size=30),
        "version": st.text(max_size=9) | st.sampled_from(["1.0", "1", "yes", "null", "0x1", "~"]),
        "enabled": st.booleans(),
        "overrides": st.dictionaries(
            st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True), overrides
        ),
        "aliases": st.dictionaries(
            st.sampled_from(["a", "b-c", "yes", "null", "on"]), st.sampled_from(["d", "true", "no"])
        ),
    },
)


@given(facts=states)
def test_every_state_comes_back_and_is_written_the_same(
    facts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "state-of-any" / "shop.yaml"
    file.unlink(missing_ok=True)
    wanted = state(**facts)

    write_state(file, wanted)
    first = file.read_bytes() if file.exists() else None
    read = read_state(file, "shop.yaml").value
    assert read == wanted

    write_state(file, read)
    assert (file.read_bytes() if file.exists() else None) == first
