"""Prompts, resources and completions of toolsets."""

import base64
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.mcp_client import (
    TOOLSETS,
    by_turns,
    one_version,
    read,
    refused,
    resource_uris,
    talk,
    versions,
)

DOT = (TOOLSETS / "guide" / "assets" / "dot.png").read_bytes()
NAMES = ["guide.asks", "guide.explain", "guide.off"]


async def prompt_names(client: Client) -> list[str]:
    return [prompt.name for prompt in (await client.list_prompts()).prompts]


@pytest.mark.parametrize(
    ("role", "prompts", "resources"),
    [
        (None, NAMES, ["covalt://guide/scripts", "guide://all", "guide://dot"]),
        ("guest", NAMES[:2], ["guide://all"]),
        ("reader", [], []),
    ],
)
def test_a_role_has_the_prompts_and_resources_that_it_may_see(
    shared: Path, role: str | None, prompts: list[str], resources: list[str]
) -> None:
    async def say(client: Client) -> None:
        assert await prompt_names(client) == prompts
        assert await resource_uris(client) == resources
        for name in {*NAMES} - {*prompts}:
            assert (await refused(client.get_prompt(name))).code == -32602
        for uri in {"guide://all", "guide://dot"} - {*resources}:
            assert (await refused(client.read_resource(uri))).code == -32602

    talk(shared, say, role=role)


@versions
def test_a_prompt_is_filled_in_and_its_name_has_the_style(shared: Path, version: str) -> None:
    async def say(client: Client) -> list[Any]:
        whole = await client.get_prompt("guide_explain", {"topic": "trees", "style": "a poem"})
        short = await client.get_prompt("guide_explain", {"topic": "$args.style"})
        error = await refused(client.get_prompt("guide_explain", {"style": "a poem"}))
        assert error.message == "the prompt 'guide:explain' needs topic"
        return [whole.messages, short.messages]

    whole, short = talk(shared, say, version=version, style="underscore")

    assert [(one.role, one.content.type) for one in whole] == [
        ("user", "text"),
        ("assistant", "text"),
        ("user", "image"),
        ("user", "resource"),
    ]
    assert whole[1].content.text == "Write it as a poem."
    assert base64.b64decode(whole[2].content.data) == DOT
    assert whole[3].content.resource.uri == "guide://trees"
    # A value is not expanded again, and a message with a missing argument is left out.
    assert [one.content.type for one in short] == ["text", "image", "resource"]
    assert short[0].content.text == "Explain $args.style."


@by_turns(
    ("answers", "texts"),
    [
        ({"Which city?": ["Rome"], "Which day?": ["Monday"]}, ["About Rome.", "On Monday."]),
        ({"Which city?": ["Berlin", "Rome"]}, ["About Rome."]),
        ({"Which day?": ["Monday"]}, None),
        ({}, None),
    ],
)
def test_a_user_is_asked_for_missing_arguments(
    shared: Path, version: str, answers: dict[str, list[str]], texts: list[str] | None
) -> None:
    forms: list[Any] = []
    left = {question: [*values] for question, values in answers.items()}

    async def answer(_: Any, params: Any) -> types.ElicitResult:
        forms.append(params.requested_schema["properties"])
        if not left.get(params.message):
            return types.ElicitResult(action="decline")
        (field,) = forms[-1]
        return types.ElicitResult(action="accept", content={field: left[params.message].pop(0)})

    async def say(client: Client) -> list[Any] | None:
        if texts is None:
            error = await refused(client.get_prompt("guide.asks"))
            assert error.message == "the prompt 'guide:asks' needs city"
            return None
        messages: list[Any] = (await client.get_prompt("guide.asks")).messages
        return [one.content.text for one in messages]

    callbacks = {"elicitation_callback": answer} if answers else None
    assert talk(shared, say, version=version, callbacks=callbacks) == texts
    if answers:
        assert {"city": {"type": "string", "enum": ["Rome", "Paris"]}} in forms


def test_a_resource_is_text_or_bytes(shared: Path) -> None:
    async def say(client: Client) -> list[Any]:
        uris = ("guide://all", "guide://dot", "guide://chapters/one")
        return [await read(client, uri) for uri in uris]

    all_of_it, dot, chapter = talk(shared, say)

    assert (all_of_it.mime_type, all_of_it.text) == ("text/markdown", "All of it")
    assert (dot.mime_type, base64.b64decode(dot.blob)) == ("image/png", DOT)
    assert (chapter.uri, chapter.text) == ("guide://chapters/one", "# One\n")


def test_no_uri_leads_out_of_the_folder_of_a_template(shared: Path) -> None:
    attacks = ("none", "..%2Ftoolset", "..%2F..%2F..%2Fcovalt", "%2Fetc%2Fpasswd", "one.md%00")

    async def say(client: Client) -> None:
        for name in attacks:
            uri = f"guide://chapters/{name}"
            assert (await refused(client.read_resource(uri))).message == f"unknown resource {uri!r}"

    talk(shared, say)


@versions
def test_arguments_are_completed(shared: Path, version: str) -> None:
    prompt = types.PromptReference(name="guide.explain")
    template = types.ResourceTemplateReference(uri="guide://chapters/{name}")
    typed: list[tuple[Any, str, str]] = [
        (prompt, "topic", "TR"),
        (prompt, "style", ""),
        (template, "name", "t"),
    ]

    async def say(client: Client) -> list[list[str]]:
        return [
            (await client.complete(ref, {"name": name, "value": value})).completion.values
            for ref, name, value in typed
        ]

    assert talk(shared, say, version=version) == [["trees", "Trains"], [], ["two"]]


@one_version
def test_a_client_is_notified_of_changed_prompts_and_of_resources_it_subscribed_to(
    root: Path, version: str
) -> None:
    manifest = root / "toolsets" / "guide" / "toolset.yaml"
    expected = {("PromptsListChanged", None), ("ResourceUpdated", "guide://all")}
    if version == "legacy":
        expected = {
            ("notifications/prompts/list_changed", None),
            ("notifications/resources/updated", "guide://all"),
        }
    received: set[tuple[str, str | None]] = set()

    async def handle(message: Any) -> None:
        received.add((message.method, getattr(message.params, "uri", None)))

    def change() -> None:
        text = manifest.read_text().replace('id: "off"', 'id: "on"').replace("All of it", "More")
        manifest.write_text(text)

    async def say(client: Client) -> None:
        await client.list_tools()  # from now on the server watches
        if version == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.session.subscribe_resource("guide://all")
            change()
            while not expected <= received:
                await client.list_tools()  # notifications arrive with its answer
            return
        asked: dict[str, Any] = {"resource_subscriptions": ["guide://all"]}
        async with client.listen(prompts_list_changed=True, **asked) as events:
            change()
            async for event in events:
                received.add((type(event).__name__, getattr(event, "uri", None)))
                if expected <= received:
                    return

    async def in_time(client: Client) -> None:
        with anyio.fail_after(20):
            await say(client)

    talk(root, in_time, version=version, message_handler=handle if version == "legacy" else None)
    assert {uri for _, uri in received} == {None, "guide://all"}
