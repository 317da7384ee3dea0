"""System calls of the import of a hostile bundle: it leaves no changes."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.installs.importing import import_toolset
from tests.installs import hostile_bundles as hostile
from tests.installs.test_importing import evil
from tests.stress.figures import Proof
from tests.stress.nasty_toolsets import REPOSITORY

PROMISE = (
    "A hostile bundle is refused with a reason. It starts no process, opens no connection, is "
    "not imported by Python, leaves no file, and takes little time and memory."
)
COUNT = 240

_MOST_SECONDS = 1.0
_MOST_MIB = 256
_NEVER = "%network,execve,execveat,fork,vfork,clone,clone3,ptrace,mount,symlink,symlinkat,link,linkat,mknod,mknodat"

_TRY_ALL = """
import hashlib, json, os, resource, sys, time
from pathlib import Path
root = Path(sys.argv[1])
from covalt_git.errors import CovaltError
from covalt_git.bundles.archive_reader import BadBundleError
from covalt_git.installs.importing import import_toolset

def state():
    found = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            found.append([path, hashlib.sha256(Path(path).read_bytes()).hexdigest()])
        found.append([folder, ""])
    return found

imported = []
sys.addaudithook(lambda event, args: imported.append(args[0]) if event == "import" else None)
before, told = state(), []
try:
    os.stat("/begin")
except OSError:
    pass
for bundle in sorted(Path(sys.argv[2]).iterdir()):
    del imported[:]
    start = time.perf_counter()
    try:
        import_toolset(root, bundle)
        end = "taken"
    except BadBundleError as error:
        end = "" if error.problems or "toolset.yaml" in error.message else "no place"
    seconds = time.perf_counter() - start
    theirs = [one for one in imported if one.split(".")[0] in {"tools", "sitecustomize", "usercustomize"}]
    told.append([bundle.name, end or ("imported" if theirs else ""), seconds, state() == before])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps({"told": told, "peak": peak}))
"""


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - every proof has one
    """Try every hostile bundle of the tests in one process under strace.

    Unusual bundles must be imported: refusing everything would prove nothing.
    """
    strace = shutil.which("strace")
    proof.check(strace, "strace is needed, to see what an import does")
    taken = _taken(proof)
    with tempfile.TemporaryDirectory(prefix="covalt-proof-") as name:
        root = Path(name) / "project"
        (root / "toolsets").mkdir(parents=True)
        (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
        bundles = Path(name) / "bundles"
        bundles.mkdir()
        for number, (kind, content) in enumerate(evil()):
            plain = re.sub("[^a-z0-9-]", "_", kind)
            (bundles / f"{number:03}-{plain}.zip").write_bytes(content)
        trace = Path(name) / "trace"
        watched = [str(strace), "-f", "-o", str(trace), "-e", f"trace={_NEVER},stat,newfstatat"]
        done = subprocess.run(
            [*watched, sys.executable, "-c", _TRY_ALL, str(root), str(bundles)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        proof.check(done.returncode == 0, done.stderr[-500:])
        found = json.loads(done.stdout)
        calls = trace.read_text(errors="replace").partition('"/begin"')[2].splitlines()[1:]
    proof.check(len(calls) > count, "strace saw less than there was")
    wrong = [call for call in calls if not re.match(r"\d+ +(?:newfstatat|stat|\+\+\+|---)", call)]
    proof.check(not wrong, f"it did more than read and write files: {wrong[:3]}")
    told = found["told"]
    proof.check(len(told) >= count, f"there are only {len(told)} bundles")
    for bundle, end, _, same in told:
        proof.check(not end, f"{bundle}: {end}")
        proof.check(same, f"{bundle}: the project is not as it was")
    longest = max(told, key=lambda one: one[2])
    proof.check(longest[2] < _MOST_SECONDS, f"{longest[0]} took {longest[2]:.2f} s")
    proof.check(found["peak"] < _MOST_MIB, f"it took {found['peak']} MiB")
    proof.note("bundles refused", len(told))
    proof.note("unusual but valid bundles, all imported", taken)
    proof.note("processes, connections, links and modules from bundles", 0)
    proof.note("files left behind", 0)
    proof.note("longest import, under strace, in ms", round(longest[2] * 1000))
    proof.note("peak memory, in MiB", found["peak"])


def _taken(proof: Proof) -> int:
    """Import bundles that are unusual but valid, each into its own project; return their number."""
    bundles = list(hostile.good())
    for kind, content in bundles:
        with tempfile.TemporaryDirectory(prefix="covalt-proof-") as name:
            root = Path(name)
            (root / "toolsets").mkdir()
            (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
            (root / "demo.zip").write_bytes(content)
            try:
                import_toolset(root, root / "demo.zip")
            except CovaltError as error:
                proof.check(False, f"{kind} is harmless, and refused: {error}")
    proof.check(bundles, "there is no harmless bundle")
    return len(bundles)
