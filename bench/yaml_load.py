"""How long reading a toolset.yaml takes: ours compared with what others would use, in one run.

Ours gives data and positions and refuses duplicate keys, tags and bombs.  CSafeLoader gives data,
the walk over libyaml's nodes texts and positions, and neither refuses anything.  Rounds of all three alternate, so that a busy machine is busy for each.

    python bench/yaml_load.py [rounds]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import yaml

from covalt_git import yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable

FILES_IN_A_ROUND = 20
MANIFEST = """\
# App Builder: what the assistant uses to make small web applications.
manifest_version: "1"
id: app-builder
name: App Builder
version: "1.0.0"
description: Build and preview web applications
defaults: {enabled: true, requires_confirmation: false}
python: {dependencies: ["jinja2>=3"]}
secrets: [WEATHER_KEY]
tools:
  - id: write_file
    name: Write file
    description: >-
      Write a text file into the workspace of the chat, and make the
      folders above it.
    entrypoint: tools.files:write_file
    requires_confirmation: false
    input_schema:
      type: object
      required: [path, content]
      additionalProperties: false
      properties:
        path: {type: string, minLength: 1, maxLength: 255}
        content: {type: string, description: "the whole text, UTF-8"}
    annotations: {read_only: false, destructive: true, idempotent: true}
    limits: {timeout_s: 30, memory_mb: 512, output_mb: 16}
    examples:
      - args: {path: index.html, content: hi}
        expected: {written: index.html, size: 2}
    renderer: {type: code, file: "$args.path", language: auto, editable: true}
  - id: preview
    name: Preview
    description: Show the page that was built  # in a sandboxed frame
    entrypoint: tools.preview:preview
    annotations: {read_only: true}
    renderer:
      type: html
      artifact: artifacts/preview.html
      data: $return
  - id: forecast
    name: Forecast
    description: Weather of the next days
    http:
      method: GET
      url: "https://api.example.com/v1/forecast/{city}"
      headers: {Authorization: "Bearer ${WEATHER_KEY}"}
    input_schema:
      type: object
      required: [city]
      properties:
        city: {type: string}
        days: {type: integer, minimum: 1, maximum: 14, default: 3}
tool_overrides:
  - tool: "mcp:files:*"
    requires_confirmation: true
    renderer: {type: code, file: $args.path}
mcp_servers:
  - id: files
    transport: stdio
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "."]
    env: {NODE_ENV: production}
"""


def load_with_positions() -> None:
    yaml_text.load(MANIFEST.encode(), "toolset.yaml")


def load_without_positions() -> None:
    yaml.load(MANIFEST, Loader=yaml.CSafeLoader)


def compose_and_walk() -> None:
    """Build data and positions from libyaml's nodes, by recursion and with no check at all."""
    places: dict[tuple[str | int, ...], tuple[int, int]] = {}

    def built(node: yaml.Node, loc: tuple[str | int, ...]) -> object:
        places[loc] = node.start_mark.line + 1, node.start_mark.column + 1
        if isinstance(node, yaml.MappingNode):
            return {key.value: built(item, (*loc, key.value)) for key, item in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [built(item, (*loc, at)) for at, item in enumerate(node.value)]
        return node.value

    root = yaml.compose(MANIFEST, Loader=yaml.CSafeLoader)
    assert root is not None
    built(root, ())


WAYS: dict[str, Callable[[], None]] = {
    "yaml_text.load": load_with_positions,
    "CSafeLoader": load_without_positions,
    "yaml.compose and a walk": compose_and_walk,
}


def seconds_for(way: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(FILES_IN_A_ROUND):
        way()
    return (time.perf_counter() - start) / FILES_IN_A_ROUND


def main(rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            times[name].append(seconds_for(way))
    medians = {name: statistics.median(found) for name, found in times.items()}
    lines = MANIFEST.count("\n")
    print(f"{lines} lines, {len(MANIFEST)} bytes; median of {rounds} rounds")
    print(f"{'':24} {'ms/file':>8} {'files/s':>8} {'x CSafeLoader':>14}")
    for name, median in medians.items():
        ratio = medians["CSafeLoader"] / median
        print(f"{name:24} {median * 1000:8.3f} {1 / median:8.0f} {ratio:14.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 51)
