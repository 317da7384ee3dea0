"""What a script's writer gets before a run: the check of its source, declarations of the tools, and the guide."""

from pathlib import Path
from typing import Any

import pytest

from covalt_git.cli import main
from tests.examples import rest
from tests.mcp_client import read, resource_uris, talk
from tests.scripts.conftest import CONFIG, Scripts


def problems(scripts: Scripts, text: str, language: str = "python") -> list[tuple[Any, ...]]:
    checked = scripts.operate("check_script", script=text, language=language)
    return [(row["line"], row["col"], row["code"], row["message"]) for row in checked["problems"]]


def test_a_check_finds_unknown_paths_and_names_of_arguments(scripts: Scripts) -> None:
    source = "x = 1\ntools.marks.raed()\nr = tools.marks.mark(nmae='a')\ntools.search(q=1)"
    assert problems(scripts, source) == [
        (
            2,
            1,
            "unknown_tool",
            "unknown tool 'marks.raed'; near: marks.read, marks.order, marks.mark",
        ),
        (
            3,
            5,
            "invalid_arguments",
            "tools.marks.mark: unknown argument 'nmae'; did you mean 'name'?",
        ),
        (3, 5, "invalid_arguments", "tools.marks.mark: the argument 'name' is missing"),
        (4, 1, "invalid_arguments", "tools.search: unknown argument 'q'; known: query, limit"),
        (4, 1, "invalid_arguments", "tools.search: the argument 'query' is missing"),
    ]
    found = problems(scripts, "\n tools.marks.mark({nome: 1});", "javascript")
    assert [row[:3] for row in found] == [(2, 2, "invalid_arguments")] * 2
    assert scripts.marks == []


def test_a_check_finds_what_the_interpreters_refuse(scripts: Scripts) -> None:
    ((line, col, code, message),) = problems(scripts, "a = 1\ndel a")
    assert (line, col, code) == (2, 1, "script_unsupported")
    assert message == "scripts in Python cannot use the statement `del`"
    assert problems(scripts, "a = (")[0][2] == "script_syntax"
    assert problems(scripts, "let a = ;", "javascript")[0][:3] == (1, 9, "script_syntax")


def test_a_check_names_tools_that_a_script_cannot_call_and_no_hidden_tool(scripts: Scripts) -> None:
    assert problems(scripts, "tools.marks.direct(name='a')")[0][2] == "wrong_caller"
    hidden, missing = (problems(scripts, f"tools.marks.{name}()") for name in ("hidden", "hiden"))
    assert hidden[0][3].replace("hidden", "hiden") == missing[0][3]


@pytest.mark.parametrize("path", ["marks.hidden", rest("marks.off")])
def test_a_tool_that_is_not_there_for_a_role_is_like_a_missing_one(
    scripts: Scripts, path: str
) -> None:
    manifest = scripts.root / "toolsets/marks/toolset.yaml"
    off = '  - {id: off, entrypoint: "tools.marks:mark", enabled: false}\n'
    manifest.write_text(manifest.read_text() + off)
    # Equally similar to the names that are proposed.
    missing = path.replace("hidden", "hiddex").replace("off", "ofx")

    def told(path: str) -> list[str]:
        source = f"tools.{path}(nmae='x')"
        caught = f"try:\n    {source}\nexcept Exception as e:\n    print(e)"
        ended = scripts.run(caught)
        recorded = scripts.operate("get_script", script_id=ended["id"])
        texts = [problems(scripts, source), ended["result"], recorded["lines"]]
        return [str(text).replace(path, "PATH") for text in texts]

    assert told(path) == told(missing)


def test_a_sound_script_has_no_problems(scripts: Scripts) -> None:
    assert problems(scripts, "tools.marks.mark(name='a', to='b')\ntools.marks.peek_twice()") == []


def test_the_command_prints_each_problem_at_its_place(
    scripts: Scripts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.py"
    file.write_text("tools.marks.mark(name='a', x=1)")
    with pytest.raises(SystemExit) as ended:
        main(["-C", str(scripts.root), "script", "check", str(file)])
    assert ended.value.code == 1
    assert f"{file}:1:1 invalid_arguments: tools.marks.mark: unknown argument 'x'" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_stubs_declare_the_tools_that_scripts_of_the_role_can_call(
    scripts: Scripts, language: str
) -> None:
    text = scripts.operate("get_script_stubs", language=language)["text"]
    assert "mark(" in text
    assert "inner(" in text
    for name in ("hidden", "direct", "run_script"):
        assert name not in text
    owner = scripts.boss("get_script_stubs", language=language)["text"]
    assert "hidden(" in owner


def test_the_command_prints_the_stubs_of_a_role(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["-C", str(scripts.root), "script", "stubs", "--role", "agent"])
    printed = capsys.readouterr().out
    assert "hidden" not in printed
    assert "def peek_twice(" in printed
    compile(printed, "tools.pyi", "exec")


def test_agents_read_the_guide_that_the_description_names(scripts: Scripts) -> None:
    async def say(client: Any) -> tuple[str, str]:
        listed = await client.list_tools()
        (tool,) = [tool for tool in listed.tools if tool.name == "workspace.run_script"]
        (uri,) = [uri for uri in await resource_uris(client) if uri.startswith("covalt://")]
        assert uri in (tool.description or "")
        return uri, (await read(client, uri)).text

    uri, text = talk(scripts.root, say, mode="search")
    assert uri == "covalt://guide/scripts"
    assert "tools.describe.tool({path})" in text
    assert "$" not in text


def test_a_role_without_the_tool_has_no_guide(scripts: Scripts) -> None:
    config = CONFIG.replace("  boss:", '  guest: {allow: ["marks.*"]}\n  boss:')
    (scripts.root / "covalt.yaml").write_text(config)

    async def say(client: Any) -> list[str]:
        return [uri for uri in await resource_uris(client) if uri.startswith("covalt://")]

    assert talk(scripts.root, say, role="guest") == []
