"""The documents hold: their examples work, and what they name exists."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click import Command, Context, Group

from covalt_git import open_project, yaml_text
from covalt_git.cli import cli
from covalt_git.manifests.project_root import POLICY_TESTS
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ProjectConfig, ServerConfig
from covalt_git.models.renderers import RENDERER_TYPES
from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
from covalt_git.problems.explain import titles as problem_titles
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.project_files import read_project
from docs.site.markdown import anchor
from tests import command
from tests.rest import run_by_make_test
from tests.tables import tables
from tests.workspaces.stores import run_git

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES]


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def fenced(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


CODE = re.compile(r"(?ms)^ *```(console|sh)\n(.*?)^ *```|`([^`\n]+)`")
NOW = [one for one in DOCUMENTS if one.name != "CHANGELOG.md"]
"""The documents about this version; the changelog also names what earlier versions had."""


def commands(text: str) -> list[list[str]]:
    """Return the words of each command ``covalt-git ...`` in the code of a document."""
    parts = []
    for language, block, span in CODE.findall(text):
        joined = block.replace("\\\n", " ")
        is_console = language == "console"  # other lines are output
        parts += re.findall(r"(?m)^ *\$ .*", joined) if is_console else [joined or span]
    code = "\n".join(parts)
    lines = re.findall(
        r"(?:^|[$&;(|=\"'`] *|exec )(?:covalt-git|git covalt) ([^\n|;&#>]*)", code, re.MULTILINE
    )
    return [re.split(r"[\s`]+", line.strip()) for line in lines]


def unknown_parts(words: list[str]) -> list[str]:
    """Return the words of a command that it does not have: a name of a command, or an option."""
    command: Command | None = cli
    options = {"--help", "-h"}
    while isinstance(command, Group):
        options |= {name for one in command.params for name in one.opts}
        name = next((one for one in words if command.get_command(Context(command), one)), None)
        if name is None:
            # Without a command, a group lists; some take an argument, such as the id of a chat.
            first = next((one for one in words if not one.startswith("-")), "")
            takes_id = command.collect_usage_pieces(Context(command))[0].startswith("CHAT")
            is_name = re.fullmatch(r"[a-z][a-z-]*", first) and not (
                takes_id or command.invoke_without_command
            )
            return [first] if is_name else []
        words = words[words.index(name) + 1 :]
        command = command.get_command(Context(command), name)
    assert command is not None
    options |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    used = [match[0] for one in words if (match := re.match(r"--[a-zA-Z][\w-]*", one))]
    return [one for one in used if one not in options]


@pytest.mark.parametrize("document", NOW, ids=name_of)
def test_every_command_and_option_that_a_document_shows_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    unknown = [(words, unknown_parts(words)) for words in commands(text)]

    assert [one for one in unknown if one[1]] == []


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        ("covalt-git chat log c1 --graph", []),
        ("covalt-git chat log c1 --grahp", ["--grahp"]),
        ("covalt-git caht log c1", ["caht"]),
        ("covalt-git chat branch trip idea", []),
        ("covalt-git chat lock c1", ["lock"]),
        ("covalt-git --role reviewer approval list --json", []),
    ],
)
def test_a_command_that_does_not_exist_is_refused(command: str, unknown: list[str]) -> None:
    (words,) = commands(f"Run `{command}`.")

    assert unknown_parts(words) == unknown


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))
    slugs = [anchor(heading) for heading in re.findall(r"(?m)^#+ (.+)$", text)]
    return {*slugs, *(f"{slug}-{slugs[:at].count(slug)}" for at, slug in enumerate(slugs))}


def broken_links(document: Path) -> list[str]:
    text = re.sub(r"(?ms)^ *```.*?^ *```$|`[^`\n]+`", "", document.read_text(encoding="utf-8"))
    broken = []
    for path, place in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = document.parent / path if path else document
        is_page = target.suffix == ".md" and target.exists()
        if not target.exists() or (place and (not is_page or place not in anchors(target))):
            broken.append(f"{path}#{place}" if place else path)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_a_link_to_a_missing_page_or_heading_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n[a](#a-page) [b](#b) [c](page.md#c) [d](d.md) [e](https://example.com/e)\n"
    )

    assert broken_links(page) == ["#b", "page.md#c", "d.md"]


@pytest.mark.parametrize("document", NOW, ids=name_of)
def test_every_problem_code_and_path_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    codes = {*re.findall(r"\bCG\d{3}\b", text)} - {*problem_titles()}
    paths = re.findall(
        r"`((?:covalt_git|covalt_toolset|server|tests|docs|fixtures|bench|examples|frontend|schemas)/[\w./*-]+)",
        text,
    )

    assert codes == set()
    assert [one for one in paths if not any(ROOT.glob(one.rstrip("/.")))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_key_of_a_yaml_example_exists(document: Path) -> None:
    models: dict[str, type[ToolsetManifest | ProjectConfig]] = {
        **dict.fromkeys(ToolsetManifest.model_fields, ToolsetManifest),
        **dict.fromkeys(ProjectConfig.model_fields, ProjectConfig),
    }
    unknown = []
    texts = [text for block in fenced(document, "yaml") for text in re.split(r"(?m)^---$", block)]
    for text in texts:
        content = yaml_text.load(text, "example.yaml")
        keys = [*content.data] if isinstance(content.data, dict) else []
        if keys and all(key in models for key in keys):
            reading = check(content, models[keys[0]])
            unknown += [problem for problem in reading.problems if problem.code == "CG201"]

    assert unknown == []


def test_every_promise_names_a_test_that_make_test_runs() -> None:
    text = (ROOT / "docs/project/promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)

    assert named
    for file, function in named:
        tests = [
            test.name
            for test in run_by_make_test(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        ]
        assert function in tests if function else tests, (file, function)


def test_the_examples_of_the_python_api_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create_project(tmp_path / "my-project")
    monkeypatch.chdir(tmp_path)
    first, *others = fenced(ROOT / "docs/reference/python-api.md", "python")
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
    (text,) = [
        one for one in fenced(ROOT / "docs/reference/covalt-yaml.md", "yaml") if "version: 1" in one
    ]

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
    pages = (ROOT / "docs/reference").glob("*.md")
    words = {word for page in pages for word in re.findall(r"[\w-]+", page.read_text("utf-8"))}

    assert [name for name in names if name not in words] == []


def test_this_repository_is_a_project_without_problems() -> None:
    assert read_project(ROOT).problems == ()


def test_every_test_that_the_page_about_the_runtime_names_exists() -> None:
    text = (ROOT / "docs/explanation/runtime.md").read_text(encoding="utf-8")
    tests = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    named = re.findall(r"`(?:(test_\w+\.py)(?:::)?)?(test_\w+)?`(?: \(([^)]*)\))?", text)
    ids = [one for *_, listed in named for one in re.findall(r"`([\w-]+)`", listed)]

    assert len([one for one in named if one[0] or one[1]]) > 10
    for file, test, _ in named:
        assert not file or file in tests
        assert not test or any(f"def {test}(" in source for source in tests.values())
    limits = tables(str(ROOT / "tests/runtime/test_python_tool_limits.py"))
    assert set(ids) <= {name for rows in limits.values() for name, _ in rows}


def test_the_port_of_urls_is_the_default_port_or_one_that_the_page_names() -> None:
    default = str(ServerConfig().port)
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        ports = re.findall(r"http://(?:\w+:\S+@)?127\.0\.0\.1:(\d+)", text)

        assert {*ports} <= {default, *re.findall(r"serve --port (\d+)", text)}, path


def test_no_document_installs_what_is_not_published() -> None:
    documents = [ROOT / "README.md", *PAGES]
    texts = [*documents, *(ROOT / "covalt_git").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
    published = re.compile(r"pip install (?:--\S+ )*covalt-git|covalt-git@v?\d|rev: v\d")

    assert [path.name for path in texts if published.search(path.read_text("utf-8"))] == []


def test_the_hook_of_the_documents_is_the_hook_of_this_repository() -> None:
    written = fenced(ROOT / "docs/how-to/validation.md", "yaml")[0]
    (local,) = yaml.safe_load(written)["repos"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    names = ("id", "name", "entry", "files", "pass_filenames")

    assert local["repo"] == "local"
    assert local["hooks"] == [{**{name: hooks[0][name] for name in names}, "language": "system"}]
    checked = ["covalt.yaml", POLICY_TESTS, f"a/{POLICY_TESTS}", "toolsets/a/tools/a.py"]
    for pattern in (hook["files"] for hook in hooks):
        assert [
            path for path in [*checked, "my_covalt.yaml"] if re.search(pattern, path)
        ] == checked
