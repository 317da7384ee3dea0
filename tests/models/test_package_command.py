"""Commands that run packages: which package of which registry, or why it cannot be pinned."""

import shlex

import pytest

from covalt_git.models.sources.package_command import (
    NotPinnableError,
    PackageCommand,
    abilities,
    package_command,
)
from covalt_git.models.toolset_manifest import McpServer


def read(line: str) -> PackageCommand | None:
    command, *args = shlex.split(line)
    return package_command(McpServer(id="s", command=command, args=tuple(args)))


@pytest.mark.parametrize(
    ("line", "ecosystem", "requirements", "program", "arguments"),
    [
        ("npx -y @m/s@1.2 a -b", "npm", ["@m/s@1.2"], None, ["a", "-b"]),
        ("/usr/bin/npx -p @m/s -- tool x", "npm", ["@m/s"], "tool", ["x"]),
        ("npx.cmd --package=a --package=b@^2 tool", "npm", ["a", "b@^2"], "tool", []),
        ("npm exec --yes --package=@m/s -- tool -- x", "npm", ["@m/s"], "tool", ["--", "x"]),
        ("npm exec s -- x", "npm", ["s"], None, ["x"]),
        ("pnpm dlx s@latest x", "npm", ["s@latest"], None, ["x"]),
        ("bunx -y s x", "npm", ["s"], None, ["x"]),
        ("uvx s@1.0 --flag", "pypi", ["s==1.0"], None, ["--flag"]),
        ("uvx s@latest", "pypi", ["s"], None, []),
        ("uvx --from 'a[b]>=1, <2' --with c,d e f", "pypi", ["a[b]>=1,<2", "c", "d"], "e", ["f"]),
        ("uv tool run -q s", "pypi", ["s"], None, []),
        ("pipx run --spec s==2 tool", "pypi", ["s==2"], "tool", []),
    ],
)
def test_a_command_is_read_as_its_program_reads_it(
    line: str, ecosystem: str, requirements: list[str], program: str | None, arguments: list[str]
) -> None:
    command = read(line)

    assert command is not None
    assert command.ecosystem == ecosystem
    assert (list(command.requirements), command.program) == (requirements, program)
    assert list(command.arguments) == arguments


@pytest.mark.parametrize(
    "line",
    [
        *("npx git+https://git.example/a", "npx github:a/b", "npx a/b", "npx ./a", "npx /a"),
        *("npx https://example.com/a.tgz", "npx a@npm:b", "npx a@file:b", "npx -y", "npx -c 'a b'"),
        *("npx --registry https://example.com a", "npx '${NAME}'", "npx -p a ../b"),
        *(
            "uvx --from git+https://git.example/a a",
            "uvx ./a",
            "uvx a.py",
            "pipx run https://e.example/a",
        ),
        *(
            "uvx --index-url https://example.com a",
            "uvx --from a --from b c",
            "uvx 'a @ file:///b'",
        ),
    ],
)
def test_a_package_without_a_version_in_a_registry_is_refused(line: str) -> None:
    with pytest.raises(NotPinnableError) as caught:
        read(line)

    assert caught.value.hint


@pytest.mark.parametrize("line", ["node server.js", "npm run start", "uv run server.py", "disk"])
def test_other_commands_run_no_package(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize(
    ("command", "ability"),
    [
        ("npx -y said", "installs said (newest version) and what it depends on from npm"),
        ("npx said@latest", "installs said (newest version) and"),
        ("npx @scope/said@^2", "installs @scope/said (^2) and"),
        (
            "uvx --from said[cli]==2.1 --with mcp<2 tell",
            "installs said[cli] (2.1), mcp (<2) and what they depend on from PyPI",
        ),
        ("uvx git+https://example.com/said", "is not started: "),
    ],
)
def test_a_review_names_the_packages_that_would_be_installed(command: str, ability: str) -> None:
    name, *args = command.split()
    listed = abilities(McpServer(id="s", command=name, args=tuple(args)))
    assert any(text.startswith(ability) for text in listed), listed
