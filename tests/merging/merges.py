"""Chats with two branches that parted, what stock git makes of merging them, and what we do."""

import tempfile
from pathlib import Path

from hypothesis import strategies as st

from covalt_git.merging import branch_merge, resolving
from covalt_git.merging.merge_conflicts import Choice, Choices
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import Layout, checkout, clear, git, layout_of, put, run_git, save

TEXT = "".join(f"line {number}\n" for number in range(9)).encode()


def text(**lines: str) -> bytes:
    """Return nine lines, some of them others: ``text(_3="changed")``."""
    changed = {int(name[1:]): line for name, line in lines.items()}
    return "".join(f"{changed.get(at, f'line {at}')}\n" for at in range(9)).encode()


def become(chat: ChatStore, layout: Layout) -> str | None:
    """Let the folder hold exactly a layout, and save it; return the manifest, if there is one."""
    clear(chat.workspace)
    put(chat.workspace, layout)
    with writing(chat) as writer:
        return writer.commit_changes()


def parted(chat: ChatStore, base: Layout, ours: Layout, theirs: Layout) -> None:
    """Let main hold ``ours`` and idea ``theirs``, both of which come from ``base``; stay on main."""
    if become(chat, base) is None:
        put(chat.workspace, {"seed": ("file", b"so that there is something to branch from")})
        save(chat)
        become(chat, base)
    with writing(chat) as writer:
        branches.create(writer, "idea", chat.head())
    become(chat, ours)
    checkout(chat, "idea")
    become(chat, theirs)
    checkout(chat, "main")


def merge(
    chat: ChatStore, branch: str = "idea", choices: Choices | None = None, *, ff: bool = True
) -> branch_merge.Merge:
    """Merge a branch into the active one, and make sure that nothing is left to be saved."""
    with writing(chat) as writer:
        done = branch_merge.merge(writer, branch, choices, fast_forward=ff)
        at = chat.head()
        assert writer.commit_changes() == at == done.manifest_id
        if done.status == "merged" and at is not None:
            assert chat.manifest(at).record.workspace == writer.scan().notes
    return done


def resolve(chat: ChatStore, path: str, choice: Choice) -> None:
    """Decide a conflict, and make sure that nothing is left to be saved."""
    with writing(chat) as writer:
        resolving.resolve(writer, path, choice)
        at = chat.head()
        assert at is not None
        assert writer.commit_changes() == at
        assert chat.manifest(at).record.workspace == writer.scan().notes


def waiting(chat: ChatStore) -> dict[str, str]:
    """Return what waits to be decided: the paths of each conflict and of the other version."""
    found = resolving.waiting(chat, chat.head(), chat.state(chat.head()).tree)
    return {one.path: one.saved_as for one in found}


def gits_tree(chat: ChatStore, ours: str, theirs: str) -> str | None:
    """Return the tree that stock git makes of two branches; None where it finds conflicts.

    Without renames: what moved is a deletion and a new file to us.
    """
    with tempfile.TemporaryDirectory(dir=chat.folder.parent) as place:
        copy = Path(place) / "copy"
        store = str(chat.folder / "store.git")
        git(chat.folder, "clone", "-q", "--shared", "--branch", ours, store, str(copy))
        way = ("-q", "-s", "recursive", "-X", "no-renames", "-m", "merged")
        done = run_git(copy, "merge", *way, f"origin/{theirs}")
        assert done.returncode in {0, 1}, done.stderr
        return None if done.returncode else git(copy, "rev-parse", "HEAD^{tree}").strip()


def tree_id(chat: ChatStore, revision: str) -> str:
    return git(chat.folder / "store.git", "rev-parse", f"{revision}^{{tree}}").strip()


def folder(chat: ChatStore) -> Layout:
    return layout_of(chat.workspace)


_LINES = st.lists(st.sampled_from(range(12)), unique=True, max_size=8).map(sorted)
_CONTENTS = st.one_of(
    _LINES.map(lambda lines: b"".join(b"line %d\n" % one for one in lines)),
    _LINES.map(lambda lines: b"\r\n".join(b"line %d" % one for one in lines)),
    st.sampled_from([b"\0one", b"\0two", b""]),
)
_FILES = st.tuples(st.sampled_from(["file", "file", "program"]), _CONTENTS)
_THINGS = st.one_of(
    _FILES,
    _FILES,
    st.tuples(st.just("link"), st.sampled_from([b"a", b"b", b"./c"])),
    st.tuples(st.just("folder"), st.just(b"")),
)
_PATHS = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/f", "g", "g/h", "a/i", "d/e"])


@st.composite
def layouts(draw: st.DrawFn, least: int) -> Layout:
    """Make up a folder: few paths, so that sides meet, and every kind of thing."""
    layout: Layout = {}
    for path, thing in draw(st.dictionaries(_PATHS, _THINGS, min_size=least, max_size=6)).items():
        beside = (f"{known}/" for known in layout)
        under = any(known.startswith(f"{path}/") for known in layout)
        if not under and not path.startswith(tuple(beside)):
            layout[path] = thing
    return layout


@st.composite
def histories(draw: st.DrawFn) -> tuple[Layout, Layout, Layout]:
    """Generate a folder and two changed versions of it."""
    base = draw(layouts(3))
    sides = []
    for _ in range(2):
        side = dict(base)
        for path, thing in draw(layouts(1)).items():
            in_the_way = [
                known
                for known in side
                if known.startswith(f"{path}/") or path.startswith(f"{known}/") or known == path
            ]
            for known in in_the_way:
                del side[known]
            if draw(st.booleans()):
                side[path] = thing
        sides.append(side)
    return base, sides[0], sides[1]


def differ_in_how_both_made_one(base: Layout, ours: Layout, theirs: Layout) -> bool:
    """Return whether both sides added a file, one of them executable, which git merges differently."""
    return any(
        {ours[path][0], theirs[path][0]} == {"file", "program"}
        and base.get(path, ("", b""))[0] not in {"file", "program"}
        for path in ours.keys() & theirs.keys()
    )
