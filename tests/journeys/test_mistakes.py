"""Broken toolsets and tools that misbehave: each is an error of its own, and everything else goes on."""

from __future__ import annotations

from tests.journeys.terminal import Terminal


def test_a_typo_in_a_manifest_has_a_place_and_breaks_no_other_toolset(project: Terminal) -> None:
    manifest = project.folder / "toolsets/app-builder/toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    old = "entrypoint: tools.files:read_file"
    manifest.write_text(text.replace(old, "entrypont: x"), encoding="utf-8")
    shown = project.covalt("validate", code=1)

    line = text[: text.index(old)].count("\n") + 1
    assert f"toolsets/app-builder/toolset.yaml:{line}:5: CG201 " in shown
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("chat", "upload", "c1", "toolsets/data-lab/assets/weather.csv")
    project.covalt("call", "c1", "data-lab:report", "--arg", "path=weather.csv")
    project.covalt("call", "c1", "app-builder:read_file", "{}", code=1)


def test_a_broken_toolset_keeps_the_tools_that_it_had(project: Terminal) -> None:
    before = project.json("tool", "list")["groups"]
    (project.folder / "toolsets/data-lab/toolset.yaml").write_text("tools: [", encoding="utf-8")
    after = project.json("tool", "list")["groups"]

    before_ids, after_ids = (
        [tool["tool_id"] for group in found for tool in group["tools"]] for found in (before, after)
    )
    assert after_ids == before_ids
    assert {group["id"] for group in after if not group["sound"]} == {"data-lab"}
    assert {tool["broken"] for group in after for tool in group["tools"]} == {True, False}
