"""The documents hold: their examples work, and what they name exists."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click import Context, Group

from covalt_git import open_project, yaml_text
from covalt_git.cli import cli
from covalt_git.cli.command_names import COMMANDS
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ProjectConfig, ServerConfig
from covalt_git.models.renderers import RENDERER_TYPES
from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.project_files import read_project
from tests import command
from tests.tables import tables
from tests.workspaces.stores import run_git

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def fenced(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_document_shows_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    shown = set(re.findall(r"covalt-git ([a-z]+)(?: ([a-z]+))?", text))
    unknown = []
    for noun, verb in shown:
        if noun not in COMMANDS:
            continue  # a sentence about covalt-git, not a command
        command = cli.get_command(None, noun)  # type: ignore[arg-type]
        if isinstance(command, Group) and verb and verb not in command.list_commands(Context(cli)):
            unknown.append(f"{noun} {verb}")

    assert unknown == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)\)", text)

    assert [one for one in targets if not (document.parent / one).exists()] == []


def test_every_promise_names_a_test_that_exists() -> None:
    text = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)

    assert named
    for file, function in named:
        assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8"), (file, function)


def test_the_examples_of_the_python_api_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create_project(tmp_path / "my-project")
    monkeypatch.chdir(tmp_path)
    first, *others = fenced(ROOT / "docs/python-api.md", "python")
    exec(first, {"SALES": b"month,total\n1,10\n2,20\n"})
    with open_project("my-project") as project:
        names = {"project": project, "chat": project.create_chat()}
        for example in others:
            exec(example, names)

    printed = capsys.readouterr().out
    assert printed.startswith("success ")
    assert "+body { color: blue }" in printed
    assert "unknown_tool no tool 'data-lab:sumarize' did you mean" in printed


def test_the_commands_of_the_readme_run_in_its_order(tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    codes = {}
    for block in fenced(ROOT / "README.md", "console"):
        for step in re.findall(r"(?m)^\$ (.+)$", block.replace(" && ", "\n$ ")):
            program, *args = shlex.split(step.partition(" <")[0])
            if program == "cd":
                folder /= args[0]
            elif program == "git":
                codes[step] = run_git(folder, *args).returncode
            else:
                codes[step] = command.run(*args, cwd=folder).returncode

    pending = "covalt-git call c1 app-builder:run_command --arg command=ls < /dev/null"
    assert codes.pop(pending) == 4
    assert len(codes) > 15
    assert {step: code for step, code in codes.items() if code} == {}


def test_toolset_of_the_readme_works(tmp_path: Path) -> None:
    create_project(tmp_path)
    (manifest,) = fenced(ROOT / "README.md", "yaml")
    (module,) = fenced(ROOT / "README.md", "python")
    tools = tmp_path / "toolsets/notes/tools"
    tools.mkdir(parents=True)
    (tools / "words.py").write_text(module, encoding="utf-8")
    (tmp_path / "toolsets/notes/toolset.yaml").write_text(manifest, encoding="utf-8")
    (tmp_path / "poem.txt").write_text("to be or not to be", encoding="utf-8")

    def covalt(*args: str) -> str:
        done = command.run("-C", str(tmp_path), *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert covalt("validate") == "4 toolsets, 16 tools: no problems\n"
    covalt("chat", "new", "--id", "c1")
    covalt("chat", "upload", "c1", str(tmp_path / "poem.txt"))
    said = covalt(
        "call", "c1", "notes:count_words", "--arg", "path=poem.txt", "--arg", "at_least=2"
    )

    assert '"be": 2' in said
    assert '"to": 2' in said
    assert '"or"' not in said


def test_documented_covalt_yaml_has_no_problems() -> None:
    (text,) = [one for one in fenced(ROOT / "docs/toolsets.md", "yaml") if "version: 1" in one]

    reading = check(yaml_text.load(text, "covalt.yaml"), ProjectConfig)

    assert reading.problems == ()


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(list(ToolsetManifest.model_fields), id="toolset"),
        pytest.param(
            [name for name in ToolDeclaration.model_fields if name != "renderer"], id="tool"
        ),
        pytest.param(
            [field.alias or name for name, field in ProjectConfig.model_fields.items()],
            id="project",
        ),
        pytest.param([name for name in RENDERER_TYPES if name != "markdown"], id="renderer"),
    ],
)
def test_every_key_is_documented(names: list[str]) -> None:
    text = (ROOT / "docs/toolsets.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[\w-]+", text))

    assert [name for name in names if name not in words] == []


def test_this_repository_is_a_project_without_problems() -> None:
    assert read_project(ROOT).problems == ()


def test_every_test_that_the_page_about_the_runtime_names_exists() -> None:
    text = (ROOT / "docs/design/runtime.md").read_text(encoding="utf-8")
    tests = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    named = re.findall(r"`(?:(test_\w+\.py)(?:::)?)?(test_\w+)?`(?: \(([^)]*)\))?", text)
    ids = [one for *_, listed in named for one in re.findall(r"`([\w-]+)`", listed)]

    assert len([one for one in named if one[0] or one[1]]) > 10
    for file, test, _ in named:
        assert not file or file in tests
        assert not test or any(f"def {test}(" in source for source in tests.values())
    limits = tables(str(ROOT / "tests/runtime/test_python_tool_limits.py"))
    assert set(ids) <= {name for rows in limits.values() for name, _ in rows}


def test_the_port_of_urls_is_the_default_port() -> None:
    default = str(ServerConfig().port)
    for path in (ROOT / "docs").glob("*.md"):
        ports = re.findall(
            r"http://(?:\w+:\S+@)?127\.0\.0\.1:(\d+)", path.read_text(encoding="utf-8")
        )

        assert {*ports} <= {default}, path


def test_no_document_installs_what_is_not_published() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = [*documents, *(ROOT / "covalt_git").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
    published = re.compile(r"pip install (?:--\S+ )*covalt-git|covalt-git@v?\d|rev: v\d")

    assert [path.name for path in texts if published.search(path.read_text("utf-8"))] == []


def test_the_hook_of_the_documents_is_the_hook_of_this_repository() -> None:
    written = fenced(ROOT / "docs/validation.md", "yaml")[0]
    (local,) = yaml.safe_load(written)["repos"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    names = ("id", "name", "entry", "files", "pass_filenames")

    assert local["repo"] == "local"
    assert local["hooks"] == [{**{name: hooks[0][name] for name in names}, "language": "system"}]
