"""The bundle of a toolset that requests a host, a secret, a program and a Python package."""

from tests.installs.hostile_bundles import GOOD, File, archive

MANIFEST = b"""\
id: demo
name: Demo
version: "1.2"
secrets: [MAPS_KEY]
python: {dependencies: [tinypkg]}
tools:
  - {id: run, entrypoint: "tools.a:run", requires_confirmation: true}
  - id: far
    http: {url: "https://maps.example/{q}", headers: {Authorization: "Bearer ${MAPS_KEY}"}}
    input_schema: {type: object, properties: {q: {type: string}}, required: [q]}
mcp_servers:
  - {id: maps, command: maps-server, args: [--stdio, "a b"], env: {KEY: "${MAPS_KEY}"}}
"""
DEMO = archive((File(b"toolset.yaml", MANIFEST), GOOD[1]))
