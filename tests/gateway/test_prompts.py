"""Prompts, resources and completions of toolsets, as clients of either era have them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.mcp_client import ERAS, add_toolset, command, eras, make_project, talk

PNG = b"\x89PNG\r\n\x1a\n"
GUIDE = """\
id: guide
name: Guide
version: "1"
tools:
  - {id: nothing, entrypoint: tools.guide:nothing}
prompts:
  - id: explain
    description: Explain something
    arguments:
      - {name: topic, required: true, values: [trees, Trains, cars]}
      - {name: style}
    messages:
      - {text: "Explain $args.topic."}
      - {text: "Write it as $args.style.", role: assistant}
      - {file: assets/dot.png}
      - {resource: "guide://$args.topic", text: "About $args.topic"}
  - {id: "off", messages: [{text: x}]}
  - id: asks
    arguments:
      - {name: city, required: true, ask: "Which city?", values: [Rome, Paris]}
      - {name: day, ask: "Which day?"}
    messages: [{text: "About $args.city."}, {text: "On $args.day."}]
resources:
  - {id: all, uri: "guide://all", text: All of it, mime_type: text/markdown}
  - {id: dot, uri: "guide://dot", file: assets/dot.png}
  - id: chapter
    uri_template: guide://chapters/{name}
    file: chapters/${args.name}.md
    variables: [{name: name, values: [one, two]}]
"""


def with_guide(root: Path) -> Path:
    make_project(root, roles="  guest: {allow: [guide.*], deny: [guide.off, guide.dot]}\n")
    files = {"assets/dot.png": PNG, "chapters/one.md": b"# One\n"}
    add_toolset(root, "guide", GUIDE, "def nothing() -> None: ...\n", files)
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_guide(tmp_path_factory.mktemp("prompts") / "project")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return with_guide(tmp_path / "project")


async def names(client: Client) -> list[str]:
    return [prompt.name for prompt in (await client.list_prompts()).prompts]


async def addresses(client: Client) -> list[str]:
    return [one.uri for one in (await client.list_resources()).resources]


@eras
def test_a_role_has_prompts_and_resources_as_it_has_tools(root: Path, era: str) -> None:
    async def refused(client: Client) -> None:
        with pytest.raises(MCPError, match=r"unknown prompt 'guide\.off'"):
            await client.get_prompt("guide.off")
        with pytest.raises(MCPError, match="unknown resource 'guide://dot'"):
            await client.read_resource("guide://dot")

    assert talk(root, names, era=era) == ["guide.asks", "guide.explain", "guide.off"]
    assert talk(root, names, era=era, role="guest") == ["guide.asks", "guide.explain"]
    assert talk(root, names, era=era, role="reader") == []
    assert talk(root, names, era=era, style="underscore") == [
        "guide_asks",
        "guide_explain",
        "guide_off",
    ]
    assert talk(root, addresses, era=era) == ["guide://all", "guide://dot"]
    assert talk(root, addresses, era=era, role="guest") == ["guide://all"]
    talk(root, refused, era=era, role="guest")


@eras
def test_a_prompt_is_filled_in(root: Path, era: str) -> None:
    async def said(client: Client) -> list[Any]:
        whole = await client.get_prompt("guide.explain", {"topic": "trees", "style": "a poem"})
        short = await client.get_prompt("guide.explain", {"topic": "$args.style"})
        with pytest.raises(MCPError, match="the prompt 'guide:explain' needs topic"):
            await client.get_prompt("guide.explain", {"style": "a poem"})
        return [whole.messages, short.messages]

    whole, short = talk(root, said, era=era)

    assert [(one.role, one.content.type) for one in whole] == [
        ("user", "text"),
        ("assistant", "text"),
        ("user", "image"),
        ("user", "resource"),
    ]
    assert whole[1].content.text == "Write it as a poem."
    assert base64.b64decode(whole[2].content.data) == PNG
    assert whole[3].content.resource.uri == "guide://trees"
    # What an argument stands for is not looked at again, and what names one that is not there is left out.
    assert [one.content.type for one in short] == ["text", "image", "resource"]
    assert short[0].content.text == "Explain $args.style."


@eras
@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"Which city?": {"city": "Rome"}, "Which day?": {"day": "Monday"}}, ["Rome", "Monday"]),
        ({"Which city?": {"city": "Rome"}}, ["Rome"]),
        ({"Which day?": {"day": "Monday"}}, None),
        (None, None),
    ],
)
def test_a_person_is_asked_for_what_was_not_given(
    root: Path, era: str, answers: Any, told: list[str] | None
) -> None:
    forms: list[Any] = []

    async def asked(_: Any, params: Any) -> types.ElicitResult:
        forms.append(params.requested_schema)
        content = answers.get(params.message)
        return types.ElicitResult(action="accept" if content else "decline", content=content)

    async def said(client: Client) -> list[str] | None:
        if told is None:
            with pytest.raises(MCPError, match="'guide:asks' needs city"):
                await client.get_prompt("guide.asks")
            return None
        messages = (await client.get_prompt("guide.asks")).messages
        texts = [one.content for one in messages if isinstance(one.content, types.TextContent)]
        return [one.text.split()[1][:-1] for one in texts]

    assert talk(root, said, era=era, can=answers and {"elicitation_callback": asked}) == told
    assert len(forms) == (2 if answers else 0)
    if answers:
        field = {"type": "string", "enum": ["Rome", "Paris"]}
        assert forms[0]["properties"] == {"city": field}


@eras
def test_an_answer_that_does_not_fit_is_asked_for_again(root: Path, era: str) -> None:
    cities = iter(["Berlin", "Rome"])

    async def asked(_: Any, params: Any) -> types.ElicitResult:
        if params.message == "Which day?":
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"city": next(cities)})

    async def said(client: Client) -> Any:
        return (await client.get_prompt("guide.asks")).messages[0].content

    assert talk(root, said, era=era, can={"elicitation_callback": asked}).text == "About Rome."


def test_who_can_only_open_addresses_is_asked_for_no_argument(root: Path) -> None:
    how = command(root)
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERAS[0],
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
    }
    params = {"name": "guide.asks", "_meta": meta}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params}
    with subprocess.Popen(
        [sys.executable, *how.args], stdin=PIPE, stdout=PIPE, env=how.env, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        told = json.loads(server.stdout.readline())

    assert "'guide:asks' needs city" in told["error"]["message"]


@eras
def test_a_resource_is_text_or_bytes(root: Path, era: str) -> None:
    async def said(client: Client) -> list[Any]:
        uris = ("guide://all", "guide://dot", "guide://chapters/one")
        return [(await client.read_resource(uri)).contents[0] for uri in uris]

    text, image, chapter = talk(root, said, era=era)

    assert (text.mime_type, text.text) == ("text/markdown", "All of it")
    assert (image.mime_type, base64.b64decode(image.blob)) == ("image/png", PNG)
    assert (chapter.uri, chapter.text) == ("guide://chapters/one", "# One\n")


@pytest.mark.parametrize(
    "name", ["none", "..%2Ftoolset", "..%2F..%2F..%2Fcovalt", "%2Fetc%2Fpasswd", "one.md%00"]
)
def test_no_address_leads_out_of_the_files_that_are_meant(root: Path, name: str) -> None:
    async def said(client: Client) -> None:
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource(f"guide://chapters/{name}")

    talk(root, said)


@eras
def test_arguments_are_completed(root: Path, era: str) -> None:
    async def said(client: Client) -> list[list[str]]:
        prompt = types.PromptReference(name="guide.explain")
        template = types.ResourceTemplateReference(uri="guide://chapters/{name}")
        asked: list[tuple[Any, str, str]] = [
            (prompt, "topic", "TR"),
            (prompt, "style", ""),
            (template, "name", "t"),
        ]
        return [
            (await client.complete(ref, {"name": name, "value": value})).completion.values
            for ref, name, value in asked
        ]

    assert talk(root, said, era=era) == [["trees", "Trains"], [], ["two"]]


def test_a_broken_toolset_or_one_that_is_off_gives_nothing(own: Path) -> None:
    manifest = own / "toolsets" / "guide" / "toolset.yaml"
    state = own / "toolsets" / "state" / "guide.yaml"
    state.parent.mkdir(exist_ok=True)
    state.write_text("enabled: false\n")
    off = talk(own, names), talk(own, addresses)
    state.unlink()
    on = talk(own, names)
    manifest.write_text(GUIDE.replace("$args.topic.", "$args.topics."))

    assert off == ([], [])
    assert on == ["guide.asks", "guide.explain", "guide.off"]
    assert (talk(own, names), talk(own, addresses)) == ([], [])


@eras
def test_a_client_is_told_of_other_prompts_and_of_what_it_subscribed_to(
    own: Path, era: str
) -> None:
    manifest = own / "toolsets" / "guide" / "toolset.yaml"
    expected = {"PromptsListChanged", "ResourceUpdated"}
    if era == "legacy":
        expected = {"notifications/prompts/list_changed", "notifications/resources/updated"}
    send, receive = anyio.create_memory_object_stream[str](10)

    async def hear(message: Any) -> None:
        await send.send(message.method)

    async def all_told() -> bool:
        manifest.write_text(GUIDE.replace('id: "off"', 'id: "on"').replace("All of it", "More"))
        with anyio.fail_after(20):
            told = set[str]()
            while not expected <= told:
                told.add(await receive.receive())
        return True

    async def said(client: Client) -> bool:
        await client.list_tools()  # the server looks on from here
        if era == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.session.subscribe_resource("guide://all")
            return await all_told()
        asked: dict[str, Any] = {"resource_subscriptions": ["guide://all"]}
        async with (
            client.listen(prompts_list_changed=True, **asked) as events,
            anyio.create_task_group() as group,
        ):

            async def note() -> None:
                async for event in events:
                    await send.send(type(event).__name__)

            group.start_soon(note)
            told = await all_told()
            group.cancel_scope.cancel()
        return told

    with send, receive:
        assert talk(own, said, era=era, hears=hear if era == "legacy" else None)
