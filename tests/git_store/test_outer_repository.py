"""The repository around a project: revisions mean what git says, in repositories of each kind."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from dulwich.index import Index, IndexEntry
from dulwich.objects import ObjectID
from dulwich.repo import Repo

from covalt_git.git_store.outer_repository import UnknownRevisionError, write_folder, write_staged
from tests.workspaces.stores import commit_all, git

REVISIONS = [
    *("HEAD", "@", "main", "side", "v1", "heads/main", "tags/v1", "refs/heads/main", "FETCH_HEAD"),
    *("ORIG_HEAD", "@{0}", "@{1}", "HEAD@{2}", "main@{1}", "HEAD^", "HEAD^2", "HEAD~2", "@~1^0"),
    *("HEAD^{commit}", "v1^{}", "v1~1", "v1^{commit}~1", "main@{1}~1", "HEAD^2~1", "HEAD^^"),
]


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def template(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A repository with a merge, an annotated tag, a fetch and a reset; not to be changed."""
    root = tmp_path_factory.mktemp("template") / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", f"--object-format={request.param}")

    def add(name: str) -> None:
        (root / name).write_text(name)
        commit_all(root)

    add("one")
    add("two")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "tag", "-a", "v1", "-m", "one")
    git(root, "checkout", "-q", "-b", "side")
    add("three")
    git(root, "checkout", "-q", "main")
    add("four")
    merge = ("-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "--no-edit", "side")
    git(root, *merge)
    add("five")
    git(root, "fetch", "-q", str(root), "side")
    git(root, "reset", "-q", "--hard", "HEAD~1")
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "work", symlinks=True))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_is_the_commit_that_git_names(root: Path, tmp_path: Path, revision: str) -> None:
    expected = git(root, "rev-parse", f"{revision}^{{commit}}").strip()

    assert write_folder(root, revision, tmp_path / "copy")[0] == expected
    assert write_folder(root, expected[:12], tmp_path / "again")[0] == expected


@pytest.mark.parametrize("revision", ["@{yesterday}", "main@{u}", ":/one", "HEAD^{/one}"])
def test_a_name_that_is_not_supported_has_the_command_that_prints_the_id(
    root: Path, tmp_path: Path, revision: str
) -> None:
    with pytest.raises(UnknownRevisionError) as refused:
        write_folder(root, revision, tmp_path / "copy")

    assert "not supported" in refused.value.message
    assert f"git rev-parse {shlex.quote(revision)}" in refused.value.hint


@pytest.mark.parametrize(
    "revision",
    ["HEAD^{tree}", "main~1^{tree}", "HEAD^{blob}", "HEAD:one", "HEAD:", ":0:one", ":one"],
)
def test_a_name_of_a_file_or_folder_is_no_commit(root: Path, tmp_path: Path, revision: str) -> None:
    with pytest.raises(UnknownRevisionError, match="names a file or folder") as refused:
        write_folder(root, revision, tmp_path / "copy")

    assert "rev-parse" not in refused.value.hint
    assert "a commit" in refused.value.hint


@pytest.mark.parametrize("revision", ["HEAD~9", "HEAD^3", "@{99}", "nope", "MERGE_HEAD", "-x", ""])
def test_a_commit_that_does_not_exist_is_unknown(root: Path, tmp_path: Path, revision: str) -> None:
    with pytest.raises(UnknownRevisionError):
        write_folder(root, revision, tmp_path / "copy")


def test_the_staged_files_are_those_of_the_index(root: Path, tmp_path: Path) -> None:
    (root / "one").write_text("staged")
    git(root, "add", "one")
    (root / "one").write_text("not staged")

    write_staged(root, tmp_path / "copy")

    assert (tmp_path / "copy/one").read_text() == "staged"


def test_a_damaged_index_is_no_traceback(root: Path, tmp_path: Path) -> None:
    index = root / ".git/index"
    index.write_bytes(index.read_bytes()[:40] + bytes(200))

    with pytest.raises(UnknownRevisionError):
        write_staged(root, tmp_path / "copy")


def test_a_partial_clone_names_its_cause(root: Path, tmp_path: Path) -> None:
    git(root, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "partial"
    partial = ("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{root}", str(clone))
    subprocess.run(["git", *partial], check=True)

    with pytest.raises(UnknownRevisionError) as refused:
        write_folder(clone, "HEAD", tmp_path / "copy")

    assert "partial clone" in refused.value.message
    git(clone, *refused.value.hint.split()[1:])
    assert write_folder(clone, "HEAD", tmp_path / "again")[0]


@pytest.mark.parametrize("name", ["partialClone", "preciousObjects", "noop", "worktreeConfig"])
def test_an_extension_that_only_writers_heed_is_no_reason_to_refuse(
    root: Path, tmp_path: Path, name: str
) -> None:
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", f"extensions.{name}", "true")

    assert write_folder(root, "HEAD", tmp_path / "copy")[0]
    write_staged(root, tmp_path / "staged")


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [("extensions.later", "true", "later"), ("core.repositoryFormatVersion", "7", "version 7")],
)
def test_a_repository_of_a_later_git_is_refused_by_the_name_of_its_feature(
    root: Path, tmp_path: Path, setting: str, value: str, named: str
) -> None:
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", setting, value)

    for read in (write_staged, lambda folder, to: write_folder(folder, "HEAD", to)):
        with pytest.raises(UnknownRevisionError) as refused:
            read(root, tmp_path / "copy")
        assert named in refused.value.message


def _tree_with_a_link_and_a_file_below_it(root: Path, outside: Path) -> str:
    """Return a tree that git would not write: a link and a folder of the same name."""
    link = git_input(root, str(outside).encode(), "hash-object", "-w", "--stdin")
    file = git_input(root, b"evil", "hash-object", "-w", "--stdin")
    below = git_input(root, f"100644 blob {file}\tx\n".encode(), "mktree")
    pairs = ((b"120000 a", link), (b"40000 a", below))
    content = b"".join(name + b"\0" + bytes.fromhex(oid) for name, oid in pairs)
    return git_input(root, content, "hash-object", "-w", "--literally", "-t", "tree", "--stdin")


def git_input(root: Path, content: bytes, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *args], input=content, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_nothing_is_written_through_a_link_of_the_same_tree(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = _tree_with_a_link_and_a_file_below_it(root, outside)
    user = ("-c", "user.name=a", "-c", "user.email=a@b")
    commit = git_input(root, b"", *user, "commit-tree", tree, "-m", "evil")

    write_folder(root, commit, tmp_path / "copy")  # the second entry of a name counts

    assert list(outside.iterdir()) == []


def test_nothing_is_written_through_a_link_of_the_same_index(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = git_input(root, str(outside).encode(), "hash-object", "-w", "--stdin")
    file = git_input(root, b"evil", "hash-object", "-w", "--stdin")
    with Repo(str(root)) as repository:
        index = Index(str(root / ".git/index"), object_format=repository.object_format)
    for path, mode, oid in ((b"a", 0o120000, link), (b"a/x", 0o100644, file)):
        index[path] = IndexEntry(0, 0, 0, 0, mode, 0, 0, 0, ObjectID(oid.encode()))
    index.write()

    with pytest.raises(UnknownRevisionError, match="twice"):
        write_staged(root, tmp_path / "copy")

    assert list(outside.iterdir()) == []
