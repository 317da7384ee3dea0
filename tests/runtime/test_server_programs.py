"""Programs of MCP servers in the sandbox: what they reach, and how they end."""

import json
import os
import shutil
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.models.tool_properties import Limits
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.observation import Observer
from covalt_git.runtime.pool import ProgramSpec
from tests.examples import covering

LEVELS: list[SandboxLevel] = ["full", "landlock"]

PYTHON = """
import json, os, socket, subprocess, sys, threading
from pathlib import Path
at = json.loads(sys.argv[1])
def attempt(action):
    try:
        return action() is not False
    except Exception:
        return False
def child(*argv):
    return subprocess.run(argv, capture_output=True).returncode == 0
worked = []
thread = threading.Thread(target=worked.append, args=(1,))
thread.start(); thread.join()
print(json.dumps({
    "thread": bool(worked),
    "child": child(sys.executable, "-c", "0"),
    "own_tmp": attempt(lambda: (Path(os.environ["HOME"]) / "a").write_text("a")),
    "granted_read": attempt(lambda: (Path(at["readable"]) / "file").read_text()),
    "granted_write": attempt(lambda: (Path(at["writable"]) / "new").write_text("a")),
    "workspace": attempt(lambda: (Path(at["workspace"]) / "new").write_text("a")),
    "BAD_read": attempt(lambda: Path(at["private"]).read_text()),
    "BAD_read_by_child": child("cat", at["private"]),
    "BAD_read_by_link": attempt(lambda: (Path(at["workspace"]) / "link").read_text()),
    "BAD_write_readable": attempt(lambda: (Path(at["readable"]) / "new").write_text("a")),
    "BAD_replace_itself": attempt(lambda: (Path(at["toolset"]) / "server.py").write_text("a")),
    "BAD_connect": attempt(lambda: socket.create_connection(("127.0.0.1", at["port"]), 1)),
    "BAD_kill": attempt(lambda: os.kill(at["pid"], 0)),
    "BAD_ptrace": child("sh", "-c", f"cat /proc/{at['pid']}/environ"),
}))
sys.stdout.flush()
subprocess.Popen([sys.executable, "-c", "import os,time\\nif os.fork(): os._exit(0)\\ntry: os.setsid()\\nexcept OSError: pass\\ntime.sleep(%r)" % at["sleep"]], stdin=0, stdout=2)
"""

NODE = """
const fs = require("fs"), path = require("path"), {spawnSync, spawn} = require("child_process");
const at = JSON.parse(process.argv[2]);
const attempt = (action) => { try { action(); return true } catch { return false } };
const child = (...argv) => spawnSync(argv[0], argv.slice(1)).status === 0;
const {Worker} = require("worker_threads");
const connect = (port) => new Promise((done) => {
  const socket = require("net").connect(port, "127.0.0.1");
  socket.on("connect", () => done(true)); socket.on("error", () => done(false)); });
const threaded = () => new Promise((done) => new Worker("require('worker_threads').parentPort.postMessage(1)", {eval: true})
  .on("message", () => done(true)).on("error", () => done(false)));
(async () => {
  let sum = 0; for (let i = 0; i < 1e6; i++) sum += i;
  console.log(JSON.stringify({
    thread: await threaded(),
    child: child(process.execPath, "-e", "0"),
    own_tmp: attempt(() => fs.writeFileSync(path.join(process.env.HOME, "a"), "a")),
    granted_read: attempt(() => fs.readFileSync(at.readable + "/file")),
    granted_write: attempt(() => fs.writeFileSync(at.writable + "/new", "a")),
    workspace: attempt(() => fs.writeFileSync(at.workspace + "/new", "a")),
    BAD_read: attempt(() => fs.readFileSync(at.private)),
    BAD_read_by_child: child("cat", at.private),
    BAD_read_by_link: attempt(() => fs.readFileSync(at.workspace + "/link")),
    BAD_write_readable: attempt(() => fs.writeFileSync(at.readable + "/new", "a")),
    BAD_replace_itself: attempt(() => fs.writeFileSync(at.toolset + "/server.js", "a")),
    BAD_connect: await connect(at.port),
    BAD_kill: attempt(() => process.kill(at.pid, 0)),
    BAD_ptrace: child("sh", "-c", `cat /proc/${at.pid}/environ`),
  }));
  spawn("sleep", [String(at.sleep)], {detached: at.detached, stdio: "ignore"}).unref();
})();
"""


class _Copy:
    """A copy of a toolset that tests write themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self) -> Any:
        return self

    def close(self) -> None:
        pass


def printed(
    spec: ProgramSpec,
    argv: list[str],
    env: dict[str, str] | None = None,
    reports: list[str] | None = None,
) -> str:
    """Run a program in its sandbox until it closes its output; return what it printed, and append ``reports``."""
    output, end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        program = spec.start(
            argv,
            {"PATH": os.environ["PATH"], **(env or {})},
            None,
            [nothing, end, 2],
            (reports if reports is not None else []).append,
        )
    finally:
        os.close(end)
        os.close(nothing)
    with os.fdopen(output) as file:
        text = file.readline()
        program.end()
        return text + file.read()


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / name for name in ("toolset", "workspace", "readable", "writable")}
    for folder in made.values():
        folder.mkdir()
    (made["readable"] / "file").write_text("granted")
    (tmp_path / "private").write_text("a secret")
    (made["workspace"] / "link").symlink_to(tmp_path / "private")
    return made


def spec_of(folders: dict[str, Path], level: SandboxLevel, **more: Any) -> ProgramSpec:
    if not next(known for known in sandbox_levels.levels() if known.level == level).here:
        pytest.skip(f"this machine has no {level}")
    copy: Any = _Copy(folders["toolset"])
    return ProgramSpec(level, copy, **more)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "source"), [("server.py", PYTHON), ("server.js", NODE)])
def test_a_server_in_python_and_in_node_reaches_what_is_granted_and_nothing_else(
    folders: dict[str, Path], tmp_path: Path, level: SandboxLevel, name: str, source: str
) -> None:
    interpreter = sys.executable if name.endswith("py") else shutil.which("node")
    if interpreter is None:
        pytest.skip("this machine has no Node")
    (folders["toolset"] / name).write_text(source)
    spec = spec_of(
        folders,
        level,
        workspace=folders["workspace"],
        readable=(folders["readable"],),
        writable=(folders["writable"],),
    )
    sleep = 1000 + os.getpid() / 1e7 + LEVELS.index(level) * 7 + len(source) / 1e3
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = {kind: str(folder) for kind, folder in folders.items()} | {
            "private": str(tmp_path / "private"),
            "port": listener.getsockname()[1],
            "pid": os.getpid(),
            "sleep": sleep,
            "detached": level == "full",  # elsewhere, it may not leave its process group
        }
        text = printed(spec, [interpreter, str(folders["toolset"] / name), json.dumps(at)])
    facts = json.loads(text.splitlines()[0])
    assert {fact for fact, is_true in facts.items() if is_true} == {
        fact for fact in facts if not fact.startswith("BAD")
    }
    # `end` has returned: no process is left, also no daemon.
    assert not processes_with(str(sleep))


def processes_with(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found += [line] if word in line else []
    return found


def test_a_server_reaches_granted_hosts_by_the_proxy_only(folders: dict[str, Path]) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = server.server_address[1]
        fetch = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"
        argv = [sys.executable, "-c", fetch, f"http://127.0.0.1:{port}/"]
        granted = spec_of(folders, "full", hosts=(f"http://127.0.0.1:{port}",))
        assert printed(granted, argv) == "hello\n"
        # What is refused is reported by name, also without a granted host.
        reports: list[str] = []
        argv = [sys.executable, "-c", fetch, "http://mcp.evil.example/"]
        for spec in (spec_of(folders, "full"), granted):
            assert printed(spec, argv, reports=reports) == ""
        assert reports == ["http://mcp.evil.example was not granted to this toolset"] * 2
        server.shutdown()


def test_a_program_that_cannot_be_executed_is_an_error_of_the_start(
    folders: dict[str, Path],
) -> None:
    with pytest.raises(FileNotFoundError):
        printed(spec_of(folders, "full"), ["no-such-program"])
    broken = folders["toolset"] / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(OSError, match="No such file"):
        printed(spec_of(folders, "full"), [str(broken)])


def test_declared_variables_act_in_the_sandbox_only(folders: dict[str, Path]) -> None:
    report = "import os; print(sorted(os.environ.items()))"
    env = {"LD_PRELOAD": "/no/such.so", "PYTHONSTARTUP": "/x", "OWN": "1"}
    text = printed(spec_of(folders, "full"), [sys.executable, "-c", report], env)
    assert "('OWN', '1')" in text
    assert "('HOME', '/tmp')" in text
    assert "COVALT" not in text


def test_a_server_without_a_workspace_starts_in_an_empty_folder(folders: dict[str, Path]) -> None:
    report = "import os; print(os.listdir('.'))"
    for level in LEVELS:
        text = printed(spec_of(folders, level), [sys.executable, "-c", report])
        assert text == "[]\n"


def test_a_program_cannot_write_a_file_beyond_its_limit(folders: dict[str, Path]) -> None:
    write = "open('f', 'wb').write(b'a' * (2 << 20))\nprint('written')"
    spec = spec_of(folders, "full", limits=Limits(written_mb=1))
    assert printed(spec, [sys.executable, "-c", write]) == ""


WASTE = {
    "memory_mb": ("kept = [bytearray(8 << 20) for _ in range(20)]", Limits(memory_mb=64)),
    "processes": (
        "import subprocess\nfor _ in range(30): subprocess.Popen(['sleep', '60'])",
        Limits(processes=20),
    ),
    "files": ("for n in range(300): open(f'{n}', 'w')", Limits(files=200)),
    "workspace_mb": (
        "for n in range(5): open(f'{n}', 'wb').write(b'a' * (1 << 20))",
        Limits(files=10, workspace_mb=3),
    ),
}
NODE_WASTE = "const kept = []; for (let n = 0; n < 20; n++) kept.push(Buffer.alloc(8 << 20, 1)); setTimeout(() => {}, 60000)"


@pytest.mark.parametrize(("level", "limit"), covering(LEVELS, [*WASTE]))
def test_a_program_beyond_a_limit_is_ended_with_the_name_of_the_limit(
    folders: dict[str, Path], level: SandboxLevel, limit: str
) -> None:
    code, limits = WASTE[limit]
    # In its home, because a program without a workspace starts in a folder that is not counted.
    code = f"import os, time\nos.chdir(os.environ['HOME'])\ntry:\n  exec({code!r})\nexcept OSError: pass\ntime.sleep(20)"
    reports: list[str] = []
    spec = spec_of(folders, level, workspace=folders["workspace"], limits=limits)

    assert printed(spec, [sys.executable, "-c", code], reports=reports) == ""

    (report,) = reports
    key = "files" if limit == "workspace_mb" else limit
    assert report.startswith("the ")
    assert report.endswith(f"so it was ended: raise limits.{key} in covalt.yaml")


@pytest.mark.parametrize("level", LEVELS)
def test_node_has_the_address_space_that_it_reserves_and_not_more_memory_than_its_limit(
    folders: dict[str, Path], level: SandboxLevel
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("this machine has no Node")
    reports: list[str] = []
    for code, limit in (("console.log('works')", 128), (NODE_WASTE, 128)):
        spec = spec_of(folders, level, limits=Limits(memory_mb=limit))
        text = printed(spec, [node, "-e", code], reports=reports)
        assert text == ("works\n" if "works" in code else "")
    assert [report.split(",")[0] for report in reports] == [
        "the program needed more than 128 MiB of memory"
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_a_refused_system_call_is_reported_by_its_name_and_stays_refused(
    folders: dict[str, Path], level: SandboxLevel
) -> None:
    code = (
        "import ctypes, errno, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for _ in range(3): print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno() == errno.EPERM, end=' ')\n"
        "print(libc.unshare(0x10000000), ctypes.get_errno() == errno.EPERM, end=' ')\n"
        "open('f', 'w')\n"
        "try: os.chmod('f', 0o4755)\n"
        "except PermissionError: print('refused', end='')\n"
        "print(oct(os.stat('f').st_mode))"
    )
    reports: list[str] = []

    text = printed(spec_of(folders, level), [sys.executable, "-c", code], reports=reports)

    assert text.startswith("-1 True " * 4 + "refused0o100"), text
    assert "4755" not in text
    names = ("ptrace", "unshare", "chmod")
    assert reports == [f"the sandbox refused the system call {name}" for name in names]


@pytest.mark.parametrize("level", LEVELS)
def test_code_that_variables_load_runs_in_the_sandbox_as_the_program_does(
    folders: dict[str, Path], tmp_path: Path, level: SandboxLevel
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("this machine has no Node")
    # A tool can write such files into the workspace, and outside files are not there to be loaded.
    loaded = folders["workspace"] / "loaded.js"
    loaded.write_text(
        "try { console.log(require('fs').readFileSync(process.argv[2], 'utf8')) }"
        "catch (error) { console.log(error.code.replace('EACCES', 'ENOENT')) }"
    )
    (tmp_path / "outside.js").write_text("console.log('loaded from outside')")
    (folders["toolset"] / "server.js").write_text("")
    argv = [node, str(folders["toolset"] / "server.js"), str(tmp_path / "private")]
    spec = spec_of(folders, level, workspace=folders["workspace"])

    assert printed(spec, argv, {"NODE_OPTIONS": f"--require={loaded}"}) == "ENOENT\n"
    assert printed(spec, argv, {"NODE_OPTIONS": f"--require={tmp_path}/outside.js"}) == ""
    preload = {"LD_PRELOAD": str(tmp_path / "private"), "LD_LIBRARY_PATH": str(tmp_path)}
    assert printed(spec, argv, {**preload, "NODE_OPTIONS": f"--require={loaded}"}) == "ENOENT\n"


@pytest.mark.parametrize("level", LEVELS)
def test_an_observed_call_that_a_rule_denies_is_refused(
    folders: dict[str, Path], level: SandboxLevel
) -> None:
    set_id = """
import os, sys
file = sys.argv[1] + "/a"
try:
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o4755))
except PermissionError:
    print("refused")
os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o755))
os.stat("/etc/shadow")
"""
    (folders["toolset"] / "set_id.py").write_text(set_id)
    observer = Observer()
    spec = spec_of(folders, level, workspace=folders["workspace"], observer=observer)
    argv = [sys.executable, "-S", str(folders["toolset"] / "set_id.py"), str(folders["workspace"])]
    assert printed(spec, argv) == "refused\n"
    assert not (folders["workspace"] / "a").stat().st_mode & 0o6000
    assert [need.name for need in observer.needs if need.kind == "path"] == ["/etc/shadow"]
