"""Which words and variables of a command name code that its program loads, and where that code must not be.

A pull changes files of the project, and tools write in workspaces.  Neither ends the grant of an MCP server, so its
program must load code from neither.  The words of interpreters, package runners and wrappers are known; what any other
program does with its arguments and their files is not.  So a program without a sandbox gets no path there at all: even
``git status`` in a folder runs what its settings name.
"""

from __future__ import annotations

import os.path
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.system.argument_paths import leads_into, paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.models.toolset_manifest import McpServer

_VARIABLES = (
    ("the programs that it starts", "PATH SHELL EDITOR VISUAL PAGER BROWSER *_ASKPASS VIRTUAL_ENV"),
    ("its settings and installed modules", "HOME USERPROFILE XDG_*"),
    ("libraries", "LD_* DYLD_* GCONV_PATH OPENSSL_*"),
    ("modules of Python", "PYTHON* PYENV_* CONDA_* POETRY_*"),
    ("modules of Node", "NODE_* TS_NODE_* TSX_* DENO_* BUN_* NVM_* VOLTA_*"),
    ("modules of Perl, Ruby, Lua or PHP", "PERL* RUBY* GEM_* BUNDLE_* LUA_* PHPRC PHP_*"),
    ("classes of Java", "CLASSPATH JAVA_* _JAVA_* JDK_* MAVEN_* GRADLE_*"),
    ("modules of another language", "GOPATH GOROOT GOBIN GOFLAGS CARGO_* RUSTC* DOTNET_*"),
    ("commands of a shell", "BASH_ENV ENV ZDOTDIR PROMPT_COMMAND PS4 MAKEFLAGS"),
    ("hooks and programs of git", "GIT_*"),
    ("packages and their settings", "NPM_* PNPM_* YARN_* COREPACK_* UV_* PIP_* PIPX_* MISE_* ASDF_*"),
)  # fmt: skip
"""What a program loads by variables with these names; npm reads its own in lower case too."""

_KINDS = {
    "python": "python pythonw pypy",
    "shell": "sh bash dash zsh ksh ash fish busybox",
    "node": "node nodejs deno bun tsx ts-node electron",
    "perl": "perl ruby php lua luajit Rscript",
    "java": "java kotlin scala groovy jshell",
    "npm": "npm pnpm yarn",
    "runner": "npx pnpx bunx uv uvx pipx poetry hatch pdm rye conda mamba micromamba mise asdf direnv go cargo dotnet"
    " mcp fastmcp uvicorn gunicorn hypercorn streamlit",
    "wrapper": "env nice ionice nohup timeout stdbuf setsid sudo doas time xargs chrt taskset exec command xvfb-run"
    " dbus-run-session unshare systemd-run cross-env dotenv dotenvx op doppler infisical",
}
_KIND_OF = {name.lower(): kind for kind, names in _KINDS.items() for name in names.split()}
_VERSION = re.compile(r"(?<=[a-z])[\d.]+\Z|\.(?:exe|cmd|bat)\Z")
_REQUIREMENT = re.compile(r"(?<=[a-z0-9])(?:@|\[|[=<>~!]=).*\Z", re.DOTALL)
_LETTERS_OF_PYTHON = "bBdEiIOPqsSuvx"
_LAST_FLAG = {
    kind: re.compile(flags)
    for kind, flags in {
        "python": rf"-[{_LETTERS_OF_PYTHON}]*[mc]",
        "shell": r"-[ailefnuvx]*c|--command",
        "node": r"-e|-pe?|--eval|--print",
        "perl": r"-[nplawsTr]*[eEr]",
        "java": r"-jar|-m|--module",
    }.items()
}
"""Flags whose value is the code, after which only the arguments of the code follow."""

_PLAIN_FLAG = {
    kind: re.compile(flags)
    for kind, flags in {
        "python": rf"-[{_LETTERS_OF_PYTHON}]+",
        "shell": r"-[ailefnuvx]+|--login|--norc|--noprofile|--posix",
        "node": r"-[iA]|--inspect(-brk)?|--no-(warnings|deprecation|addons|prompt|lock|check|remote)|--enable-source-maps"
        r"|--experimental-(strip-types|transform-types|vm-modules|json-modules|wasm-modules|sqlite|permission)"
        r"|--allow-.*|--permission|--watch|--hot|--bun|--smol|--unstable.*|--use-(system-ca|env-proxy)",
        "npm": r"-[ysqg]|--yes|--silent|--quiet|--offline|--prefer-offline|--ignore-scripts",
        "runner": r"-[yqv]|--yes|--quiet|--verbose|--offline|--prefer-offline|--isolated|--frozen|--locked|--refresh"
        r"|--reinstall|--bun|--no-(cache|install|project|sync|config|progress|python-downloads|env-file|index|dev)",
    }.items()
}
"""Flags without a value.  Any other can have one, so the word after it is not taken for the script."""

_SUBCOMMAND = re.compile(r"run|exec|x|dlx|tool|start|dev|-")
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*|\d+[smhd]?", re.DOTALL)
_NPM_FOLDER = re.compile(r"(?:--prefix|--dir|--cwd|-C)(?:=.*)?", re.DOTALL)
_FOLDER_OPTIONS = {
    "uv": "--directory",
    "poetry": "-C --directory",
    "npm": "--prefix -C",
    "pnpm": "-C --dir",
    "yarn": "--cwd",
    "bun": "--cwd",
}
"""The options of package runners that name the folder in which the code is."""

_PROGRAMS_OF_PACKAGES = {"npx", "pnpx", "bunx", "uvx", "pipx", "npm", "pnpm", "yarn"}
_PERMISSION = re.compile(r"--allow-\w+(?:-\w+)*=")
"""Flags of Node and Deno that permit access to a folder, from which they load nothing."""


class Places(NamedTuple):
    """The folders of a chat's server: its project, the copy of its toolset, the workspace, and where it starts."""

    root: Path
    copy: Path
    workspace: Path
    start: Path

    def named_in(self, text: str) -> list[Literal["project", "workspace"]]:
        """Return the folders with changing files that a text leads into, which the copy never is."""
        return sorted({place for path in paths(text) for place in self._of(path)})

    def of_copy(self, text: str) -> Iterator[Path]:
        """Yield the paths in the copy that a text names by absolute paths, relative to it."""
        for path in paths(text):
            inner = _inner(os.path.normpath(path), self.copy)
            if inner is not None:
                yield inner

    def _of(self, path: str) -> Iterator[Literal["project", "workspace"]]:
        if path.startswith("~/"):  # for the programs that replace it themselves
            path = str(Path.home() / path[2:])
        # A program starts in a folder without links, so that only `..` leads out of it.
        if not path.startswith("/") and ".." not in path.split("/"):
            return
        # From `/` too: in the sandbox, a program starts at a place of another depth.
        from_root = f"/{path.lstrip('/')}"
        for place in (from_root,) if path.startswith("/") else (f"{self.start}/{path}", from_root):
            plain = os.path.normpath(place)
            if _inner(plain, self.copy) is not None:
                continue
            if _inner(plain, self.workspace) is not None:
                yield "workspace"
            elif leads_into(place, self.root):
                yield "project"


class Refusal(NamedTuple):
    """A text of a server's definition that names what can change: its place there, the folder, and what is loaded from it.

    ``loaded`` is empty for what may be data, which only a program without a sandbox must not get.
    """

    loc: tuple[str | int, ...]
    place: Literal["project", "workspace"]
    loaded: str

    def why(self, server: McpServer) -> str:
        """Return the reason, with the declared text: the value in its place can be a secret."""
        words = f"is in the {self.place}"
        if self.loaded:
            words = f"is in the {self.place}, and the program loads {self.loaded} from it"
        change = "a pull could change it" if self.place == "project" else "tools write there"
        return f"{self._text(server)!r} {words}: {change}"

    def hint(self, toolset_id: str, server: McpServer) -> str:
        """Return how to correct it."""
        if not self.loaded:
            command = f"covalt-git grant add {toolset_id} server {server.id}"
            folder = " --folder DIR" if self.place == "project" else ""
            return f"run the program in the sandbox: {command}{folder}"
        where, text = f"toolsets/{toolset_id}", self._text(server)
        if self.loc[0] == "env":
            return f"remove {self.loc[1]}, or move the files into {where} and write $toolset/lib"
        if self.place == "workspace":
            return f"move the code into {where}; $workspace can be an argument after it"
        path = text.removeprefix("${PWD}/")
        if path == text and not text.startswith("/"):
            return f"move the code into {where}"
        move = f"git mv {shlex.quote(path)} {where}/"
        return f"move it into the toolset: {move}; then write {PurePath(path).name} in its place"

    @property
    def key(self) -> str:
        """The place, such as ``args[0]`` and ``env.NAME``."""
        first, *rest = self.loc
        return "".join(
            [str(first), *(f"[{key}]" if isinstance(key, int) else f".{key}" for key in rest)]
        )

    def _text(self, server: McpServer) -> str:
        match self.loc:
            case ("args", int(position)):
                return server.args[position]
            case ("env", str(name)):
                return server.env.get(name, "")
            case ("cwd",):
                return server.cwd or ""
            case _:
                return server.command or ""


def refusals(
    argv: Sequence[str], env: Mapping[str, str], places: Places, *, sandboxed: bool
) -> Iterator[Refusal]:
    """Yield what a program must not get, of its command and variables, whose references are filled in.

    Code in the project or the workspace is refused always.  In the sandbox, other paths there are data, and need
    grants of their folders; without it, they are refused too.
    """
    code = code_words(argv)
    for at, text in enumerate(argv):
        loc = ("args", at - 1) if at else ("command",)
        loaded = "code" if at in code and not _PERMISSION.match(text) else ""
        for place in places.named_in(text):
            if loaded or not sandboxed:
                yield Refusal(loc, place, loaded)
    for name, text in env.items():
        loaded = loaded_by(name)
        for place in places.named_in(text):
            if loaded or not sandboxed:
                yield Refusal(("env", name), place, loaded)


def loaded_by(variable: str) -> str:
    """Return what programs load from the paths in a variable; empty if it is only data, as far as its name says."""
    name = variable.upper()
    return next(
        (
            what
            for what, patterns in _VARIABLES
            if any(fnmatchcase(name, item) for item in patterns.split())
        ),
        "",
    )


def code_words(argv: Sequence[str]) -> set[int]:
    """Return the positions of the words that can name code: the program, its script, and all options before that.

    An option whose value is not known to be none does not make the next word the script.  So rather too many words
    are returned than too few.
    """
    kind = _kind(argv[0])
    if not kind:
        return {0}
    chain, at = {kind}, 1
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            continue
        last, plain = _LAST_FLAG.get(kind), _PLAIN_FLAG.get(kind)
        if last is not None and last.fullmatch(word):
            at += 1
            if at < len(argv) and (other := _kind(argv[at])):  # python -m mcp run FILE
                kind = other
                chain.add(kind)
                at += 1
                continue
            break
        if word.startswith("-") and word != "-":
            is_alone = "=" in word or (plain is not None and plain.fullmatch(word))
            has_value = not is_alone and at + 1 < len(argv) and not argv[at + 1].startswith("-")
            at += 2 if has_value else 1
            continue
        if other := _kind(word):
            kind = other
            chain.add(kind)
        elif not (_SUBCOMMAND.fullmatch(word) or (kind == "wrapper" and _SETTING.fullmatch(word))):
            break
        at += 1
    code = {*range(min(at + 1, len(argv)))}
    if "npm" in chain:  # it reads its options also after the name of a script
        for position in range(at + 1, len(argv)):
            if argv[position] == "--":
                break
            if _NPM_FOLDER.fullmatch(argv[position]):
                code |= {position, position + 1}
    return code


def start_folder(argv: Sequence[str]) -> tuple[int, str] | None:
    """Return the folder in which a package runner starts the code, as its option names it, and the position of the word."""
    options = _FOLDER_OPTIONS.get(program_name(argv[0]), "").split()
    for at in sorted(code_words(argv) - {0}) if options else ():
        option, is_joined, value = argv[at].partition("=") if at < len(argv) else ("", "", "")
        if option in options and (is_joined or at + 1 < len(argv)):
            return (at, value) if is_joined else (at + 1, argv[at + 1])
    return None


def runs_named_program(argv: Sequence[str]) -> bool:
    """Return whether the last word that names code is a program of a package, or a script that a package names."""
    words = [argv[at] for at in sorted(code_words(argv))[1:-1]]
    return program_name(argv[0]) in _PROGRAMS_OF_PACKAGES and not any(map(_kind, words))


def _kind(word: str) -> str:
    return _KIND_OF.get(program_name(word), "")


def program_name(program: str) -> str:
    """Return the name of a program or package, without folders, a version as in ``tsx@4`` and ``mcp[cli]==1``."""
    name = _REQUIREMENT.sub("", program.rpartition("/")[2].lower())
    return _VERSION.sub("", name)


def _inner(path: str, folder: Path) -> Path | None:
    """Return a plain path relative to a folder, in one of the folder's two spellings; None if it is not in it."""
    for spelling in (folder, folder.resolve()):
        if Path(path).is_relative_to(spelling):
            return Path(path).relative_to(spelling)
    return None
