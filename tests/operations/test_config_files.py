"""``covalt.yaml``: read, fixed and changed exactly, also while it has errors, by an admin only."""

from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access import Principal
from covalt_git.errors import CovaltError
from covalt_git.models.access_token import AccessToken
from covalt_git.operations.context import Context
from covalt_git.operations.registry import every_operation
from covalt_git.project import Project
from tests.api_client import make_project
from tests.operations_client import Operations
from tests.workspaces.stores import git

OWNER = Principal("local", None, "http")
BROKEN = "version: 1\n# a note\nworkspac: {durability: fast}\n"
ROLES = "roles: {reader: {allow: ['**']}, owner: {admin: true}}\n"


def ask(root: Path, name: str, principal: Principal = OWNER, **request: Any) -> Any:
    """Perform an operation as a server does, which knows the principal without ``covalt.yaml``."""
    opened = partial(Project.cached, root, principal.role)
    with Context(root, opened, principal=principal) as context:
        return every_operation()[name](context, **request)


def refusal(root: Path, principal: Principal = OWNER) -> str:
    with pytest.raises(CovaltError) as raised:
        ask(root, "get_config", principal)
    return raised.value.code


def test_a_broken_file_is_read_fixed_and_written_exactly(operate: Operations) -> None:
    root, file = operate.root, operate.root / "covalt.yaml"
    file.write_bytes(BROKEN.replace("\n", "\r\n").encode())
    file.chmod(0o640)

    shown = ask(root, "get_config")
    assert (shown.broken, shown.fixable) == (True, 1)
    assert [(problem.line, problem.code) for problem in shown.problems] == [(3, "CG201")]

    fixed = ask(root, "fix_config", dry_run=True)
    assert (fixed.solved, fixed.problems, fixed.written) == (1, (), False)
    assert b"workspac:" in file.read_bytes()
    ask(root, "fix_config", base=fixed.base)
    assert file.read_bytes() == BROKEN.replace("\n", "\r\n").replace("pac:", "pace:").encode()

    text = "\ufeffversion: 1\r\nlimits: {timeout_s: 5}"
    base = ask(root, "get_config").base
    answer = ask(root, "update_config", content=text, base=base)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (text.encode(), 0o640)
    assert answer.sha256 == sha256(text.encode()).hexdigest()
    # The next request uses the new file, without a restart.
    assert Project.cached(root, None).config.limits.timeout_s == 5


def test_a_change_of_authority_is_compared_with_the_last_commit_while_the_file_is_broken(
    operate: Operations,
) -> None:
    root, file = operate.root, operate.root / "covalt.yaml"
    file.write_text("version: 1\nrules: [{match: 'app-builder.*', requires: approval}]\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "rules")
    file.write_text("version: 1\nnonsense: 1\n")

    base = ask(root, "get_config").base
    shown = ask(root, "update_config", content="version: 1\n", base=base, dry_run=True)

    assert (shown.compared_with, shown.grown) == ("commit", True)
    assert shown.authority
    assert file.read_text() == "version: 1\nnonsense: 1\n"


def test_a_file_that_changed_meanwhile_is_not_written(operate: Operations) -> None:
    file = operate.root / "covalt.yaml"
    base = operate("get_config")["base"]
    file.write_text("version: 1\n# theirs\n")
    for name, more in (("update_config", {"content": "version: 1\n"}), ("fix_config", {})):
        assert operate.error(name, base=base, **more).code == "moved"
    assert file.read_text() == "version: 1\n# theirs\n"

    file.unlink()
    assert refusal_of_update(operate.root, base) == "moved"
    ask(operate.root, "update_config", content="version: 1\n", base="missing")
    assert file.read_text() == "version: 1\n"
    assert refusal_of_update(operate.root, "missing") == "moved"


def refusal_of_update(root: Path, base: str) -> str:
    with pytest.raises(CovaltError) as raised:
        ask(root, "update_config", content="version: 1\n", base=base)
    return raised.value.code


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("nonsense: 1\n", True),
        ("a: [\n", True),
        (f"nonsense: 1\n{ROLES}", False),
        (f"nonsense: 1\nr{ROLES}", False),  # misspelt, so that the file seems to have no roles
        (f"nonsense: [\n{ROLES}", False),
        (f"nonsense: 1\ndefault_role: owner\n{ROLES}", True),
        (f"nonsense: 1\ndefault_role: reader\n{ROLES}", False),
        ("nonsense: 1\ndefault_role: gone\n", False),
        # A comment defines no roles.
        ("# Roles: default_role, roles: {}\nrules: [{pattern: a, effect: aks}]\n", True),
        ("# roles: {}\nrules: [\n", True),
        ("workspace:\n  durability: fast\n stray\n# default_role: x\n", True),
        ('nonsense: ["a # b", {roles: 1}\n', False),
        (" roles: {}\nrules: [\n", False),
        # A wrong value in another part does not hide roles.
        (f"default_role: owner\n{ROLES}rules: [{{pattern: a, effect: aks}}]\n", True),
        (f"default_role: owner\n{ROLES}rules: [{{pattern: a, effect: dney}}]\n", False),
        (f"default_role: owner\n{ROLES}rules: [\n", False),
        (f"default_role: owner\n{ROLES}limits: [\n", True),
        (f"default_role: reader\n{ROLES}limits: [\n", False),
        (f"default_role: owner\nroles: {{}}\n{ROLES}limits: [\n", False),
        (f"rules: [\n{ROLES}", False),
    ],
)
def test_only_an_admin_by_the_readable_rights_repairs_the_file(
    tmp_path: Path, text: str, *, allowed: bool
) -> None:
    root = make_project(tmp_path / "project")
    (root / "covalt.yaml").write_text(f"version: 1\n{text}")
    if allowed:
        assert ask(root, "get_config").broken
    else:
        assert refusal(root) == "forbidden"


def test_rights_that_the_last_commit_denies_are_not_given_by_a_broken_file(
    operate: Operations,
) -> None:
    root, file = operate.root, operate.root / "covalt.yaml"
    file.write_text(f"version: 1\ndefault_role: reader\n{ROLES}")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "roles")
    for broken in (b"version: [\n", b"nonsense: 1\n"):
        file.write_bytes(broken)
        assert refusal(root) == "forbidden"
    file.unlink()
    assert refusal(root) == "forbidden"


def test_the_last_commit_decides_if_the_rights_of_a_broken_file_cannot_be_read(
    operate: Operations,
) -> None:
    root, file = operate.root, operate.root / "covalt.yaml"
    file.write_text(f"version: 1\ndefault_role: owner\n{ROLES}")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "roles")
    file.write_text(f"version: 1\ndefault_role: owner\n{ROLES}rules: [\n")
    assert ask(root, "get_config").broken
    # What can be read still denies it.
    file.write_text(f"version: 1\ndefault_role: reader\n{ROLES}rules: [\n")
    assert refusal(root) == "forbidden"


def test_a_token_a_role_and_an_unknown_caller_do_not_repair_the_file(operate: Operations) -> None:
    root = operate.root
    (root / "covalt.yaml").write_text("version: [\n")
    token = AccessToken("issuer", "id", "owner", "digest", 0)
    assert refusal(root, OWNER._replace(token=token)) == "forbidden"
    assert refusal(root, OWNER._replace(role="owner")) == "forbidden"
    assert operate.error("get_config").code == "forbidden"
    # All other operations need the rights of the file.
    assert operate.error("list_chats").code == "broken_config"


def test_what_is_no_text_is_named_and_not_replaced(operate: Operations, tmp_path: Path) -> None:
    root, file = operate.root, operate.root / "covalt.yaml"

    def reason() -> str:
        with pytest.raises(CovaltError) as raised:
            ask(root, "update_config", content="version: 1\n", base="x" * 64)
        assert raised.value.code in {"not_editable", "linked_folder"}
        return raised.value.message

    file.write_bytes(b"version: 1\n# \xe9t\xe9\n")
    assert "line 2 has the byte 0xe9" in reason()
    file.unlink()
    file.mkdir()
    assert "is a folder" in reason()
    file.rmdir()
    (tmp_path / "secret").write_text("version: 1\n")
    file.symlink_to(tmp_path / "secret")
    assert "symbolic link" in reason()


def test_a_missing_file_does_not_open_a_project_in_a_folder_above(operate: Operations) -> None:
    (operate.root.parent / "covalt.yaml").write_text("version: 1\n")
    (operate.root / "covalt.yaml").unlink()
    with pytest.raises(CovaltError) as raised:
        Project.cached(operate.root, None)
    assert raised.value.code == "broken_config"
