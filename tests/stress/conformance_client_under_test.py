"""The client that the conformance suite drives: our own connections, with a browser that follows.

The suite gives the scenario in ``MCP_CONFORMANCE_SCENARIO``, what belongs to it in
``MCP_CONFORMANCE_CONTEXT``, and the server's address as the last argument.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from covalt_git.connections.connection import ServerCall
from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.login_reach import LoginCallbacks
from covalt_git.connections.oauth_login import sign_in
from covalt_git.connections.pool import Connections
from covalt_git.connections.token_store import ClientChoice, SignInNeededError
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach, origin_of
from covalt_git.manifests.skill_content import check_content, content_bytes
from covalt_git.models.sources.skill_entry import parsed_entry
from covalt_git.models.sources.tool_lock import locked_tool

METADATA = "https://conformance-test.local/client-metadata.json"
"""The client id metadata document that the suite's authorization server knows."""

MOST_SIGN_INS = 3


def main() -> int:
    """Do what a chat would do with the server: list its tools and call them."""
    address = sys.argv[-1]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    origin, _ = origin_of(address)
    name = Name(Path.cwd(), "conformance", "server", "chat")
    reach = Reach.of(str(origin))
    server = Definition(name, "streamable-http", url=address, reach=reach)
    choice = ClientChoice(metadata_url=METADATA)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if "client_id" in context:
        os.environ["CLIENT_SECRET"] = context["client_secret"]
        choice = ClientChoice(client_id=context["client_id"], secret_name="CLIENT_SECRET")
    connections = Connections()

    def signed_in(use: Callable[[], Any]) -> Any:
        """Use the server; where it wants to know who asks, sign in as a person would, and use it again."""
        for _ in range(MOST_SIGN_INS):
            try:
                return use()
            except SignInNeededError:
                sign_in(server, PERSON, choice, wait_s=20)
        return use()

    try:
        given = signed_in(lambda: connections.tools(server))
        tools = {tool["name"]: tool for tool in given}
        for called, args in calls(scenario, context, tools):
            asked = ServerCall(called, locked_tool(tools[called]).digest, args, 20.0)
            handlers = EventHandlers(ask=answer)
            signed_in(partial(connections.call, server, asked, handlers=handlers))
        if scenario.startswith("sep-2640-"):
            use_skills(connections, server, load=scenario != "sep-2640-client-no-prefetch")
    except CovaltError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        connections.close()
    return 0


def use_skills(connections: Connections, server: Definition, *, load: bool) -> None:
    """List the skills, as ``source refresh`` does; with ``load``, read their files as agents get them."""
    skills = [
        parsed_entry(entry) for kind, entry in connections.offers(server).listed if kind == "skill"
    ]
    for skill in skills if load else ():
        for file in skill.files:
            contents = connections.read_resource(server, file.uri, 20.0)
            check_content(skill, file.uri, content_bytes(contents))


def calls(scenario: str, context: Any, tools: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls to make: those that the suite gives, else one of each tool that there is."""
    given = context.get("toolCalls") if isinstance(context, dict) else None
    if given:
        return [(one["name"], one.get("arguments", {})) for one in given if one["name"] in tools]
    if scenario == "tools_call":
        return [("add_numbers", {"a": 5, "b": 3})]
    if "json_schema_echo" in tools:
        shown = next(tool for name, tool in tools.items() if name != "json_schema_echo")
        return [("json_schema_echo", {"schema": shown["inputSchema"]})]
    return [(tool, {}) for tool in tools]


def answer(_: str, params: dict[str, Any], __: Future[None]) -> dict[str, Any]:
    """Accept a question as a user who submits the form unchanged."""
    fields = params.get("requestedSchema", {}).get("properties", {})
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return {"action": "accept", "content": content}


def browse(address: str) -> None:
    """Visit an address and go where it leads, as a browser does."""
    with suppress(urllib.error.HTTPError), urllib.request.urlopen(address, timeout=10) as page:
        page.read()


PERSON = LoginCallbacks(on_origin=lambda _: None, on_url=lambda _: None, open_browser=browse)

if __name__ == "__main__":
    sys.exit(main())
