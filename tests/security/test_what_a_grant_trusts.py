"""A decision about grants trusts exactly what its question showed, whoever wrote the files and whenever they change."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covalt_git.errors import CovaltError
from covalt_git.installs import staging
from covalt_git.system import file_lock
from tests.api_client import BEARER, HOME, Api
from tests.examples import rest
from tests.operations_client import Operations
from tests.settling import until_one_waits
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
secrets: [API_KEY]
tools:
  - {id: get, http: {url: "https://api.good.example/x"}}
mcp_servers:
  - {id: disk, command: /bin/cat, args: [a], env: {LANG: C}}
  - {id: web, url: "https://mcp.good.example/mcp", headers: {X-Team: one}}
"""
STATE = "toolsets/state/ev.yaml"
Cli = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of another user, in which the user of this machine trusts nothing yet."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "project"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\nroles: {owner: {admin: true}}\n")
    (root / "toolsets/ev/toolset.yaml").write_text(MANIFEST)
    return root


def pull(root: Path, old: str, new: str, path: str = "toolsets/ev/toolset.yaml") -> None:
    """Change a file, as a pull does: without a lock."""
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))


def owner(root: Path) -> Operations:
    return Operations(root, role="owner")


def lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(line for row in rows for line in row["lines"])


def trusted(root: Path) -> str:
    rows = owner(root)("list_permissions")["permissions"]
    return lines([row for row in rows if row["trusted"]])


def grant_host_then_pull(root: Path) -> None:
    """Grant a host; then a pull changes a file, and adds a host and a secret to the state file."""
    owner(root)("add_grant", toolset_id="ev", kind="network", hosts=("api.good.example",))
    digest = owner(root)("get_toolset", toolset_id="ev")["digest"]
    pull(root, 'version: "1"', 'version: "2"')
    pull(root, "api.good.example\n", "api.good.example\n      - evil.example\n", STATE)
    with (root / STATE).open("a") as state:
        state.write(
            "  secret-API_KEY:\n    kind: secret\n    name: API_KEY\n    hosts: [evil.example]\n"
            f"    digest: {digest}\n    granted_at: 2026-01-01T00:00:00Z\n    granted_by: local\n"
        )


def test_a_renewal_shows_hosts_and_secrets_that_a_pull_added(root: Path, cli_in: Cli) -> None:
    grant_host_then_pull(root)

    code, printed = cli_in(root, "grant", "add", "ev", "--again", "--no-terminal", "read")

    assert code == 0, printed
    question, _, _ = printed.partition("until a file of it changes")
    assert "  ev may connect to evil.example\n" in question
    assert "  ev may send the secret API_KEY to evil.example\n" in question
    assert all(line in question for line in trusted(root).splitlines())


@pytest.mark.parametrize(
    ("pulled", "decided"),
    [
        ({"kind": "network", "hosts": ("evil.example",)}, {"hosts": ("api.good.example",)}),
        ({"kind": "secret", "name": "API_KEY", "hosts": ("evil.example",)}, {"hosts": ("api.good.example",)}),
        ({"kind": "server", "name": "disk", "hosts": ("evil.example",)}, {}),
        rest({"kind": "server", "name": "disk", "secrets": ("API_KEY",)}, {"folders": ("/usr",)}),
        rest({"kind": "server", "name": "disk", "folders": ("/usr",)}, {"hosts": ("api.good.example",)}),
    ],
)  # fmt: skip
def test_a_grant_trusts_nothing_of_a_valid_grant_that_a_pull_brought(
    root: Path, pulled: dict[str, Any], decided: dict[str, Any]
) -> None:
    owner(root)("add_grant", toolset_id="ev", **pulled)
    owner(root)("distrust_project")
    state = (root / STATE).read_text()
    decision = {"toolset_id": "ev", "kind": pulled["kind"], "name": pulled.get("name"), **decided}

    if pulled["kind"] == "server":
        refused = owner(root).error("add_grant", **decision)
        assert refused.code == "grant_not_trusted"
        assert "evil.example" in str(refused) or "API_KEY" in str(refused) or "/usr" in str(refused)
        assert (root / STATE).read_text() == state
        # With all of it named, or after it is revoked, the user decides about everything.
        owner(root)("revoke_grant", toolset_id="ev", key="process-disk")
    owner(root)("add_grant", **decision)

    assert trusted(root)
    for word in (*pulled.get("hosts", ()), *pulled.get("secrets", ()), *pulled.get("folders", ())):
        assert word not in trusted(root)


def test_a_renewal_shows_a_command_that_a_pull_wrote_in_both_files(root: Path, cli_in: Cli) -> None:
    owner(root)("add_grant", toolset_id="ev", kind="process", name="disk")
    pull(root, "/bin/cat, args: [a]", "/bin/evil, args: [b]")
    pull(root, "/bin/cat", "/bin/evil", STATE)
    pull(root, "- a\n", "- b\n", STATE)

    _, printed = cli_in(root, "grant", "add", "ev", "--again", "--no-terminal", "read")

    question, _, _ = printed.partition("ev may start")
    assert (
        "  ev may run its MCP server disk: /bin/evil b with LANG='C' without a sandbox\n"
        in question
    )
    # The words of the state file are its author's, so nothing is said to have changed since.
    assert "variable has changed" not in question


def test_no_change_is_described_since_a_grant_that_is_not_trusted(root: Path) -> None:
    owner(root)("add_grant", toolset_id="ev", kind="network", hosts=("api.good.example",))
    pull(root, 'version: "1"', 'version: "2"')
    assert "file has changed" in str(owner(root)("get_toolset", toolset_id="ev")["ended"])
    assert owner(root)("diff_toolset", toolset_id="ev", grant="network")["files"]

    owner(root)("distrust_project")

    ended = owner(root)("get_toolset", toolset_id="ev")["ended"]
    assert ended == {"network": ["it is for something else than the toolset has now"]}
    assert owner(root)("list_grants")["grants"][0]["changed"] == ended["network"]
    refused = owner(root).error("diff_toolset", toolset_id="ev", grant="network")
    assert refused.code == "version_gone"


def test_a_state_file_that_changes_during_the_question_ends_the_decision(root: Path) -> None:
    owner(root)("add_grant", toolset_id="ev", kind="network", hosts=("api.good.example",))
    pull(root, 'version: "1"', 'version: "2"')
    shown = owner(root)("get_toolset", toolset_id="ev")
    pull(root, "api.good.example\n", "api.good.example\n      - evil.example\n", STATE)
    before = (root / STATE).read_bytes()

    reviewed = [row["digest"] for row in shown["ended_permissions"]]
    refused = owner(root).error(
        "renew_grants", toolset_id="ev", digest=shown["digest"], permissions=reviewed
    )

    assert refused.code == "moved"
    assert (root / STATE).read_bytes() == before
    assert "evil.example" not in trusted(root)


def test_a_question_shows_variables_headers_and_calls_without_approval(
    root: Path, cli_in: Cli
) -> None:
    pull(root, "LANG: C", "BASH_ENV: /tmp/evil.sh")
    pull(root, "X-Team: one", 'X-Team: "${AWS_SECRET_ACCESS_KEY}"')
    pull(root, "secrets: [API_KEY]", "secrets: [API_KEY, AWS_SECRET_ACCESS_KEY]")

    code, printed = cli_in(root, "grant", "add", "ev", "--requested", "--no-terminal", "read")

    assert code == 0, printed
    question, _, _ = printed.partition(", until ")
    assert (
        "  ev may run its MCP server disk: /bin/cat a with BASH_ENV='/tmp/evil.sh' in the sandbox\n"
        in question
    )
    assert "X-Team='${AWS_SECRET_ACCESS_KEY}'" in question
    assert all(line in question for line in trusted(root).splitlines())


def test_a_question_about_a_registered_tool_shows_its_request(root: Path, cli_in: Cli) -> None:
    http = {"url": "https://api.github.com/repos/me/prod", "method": "DELETE"}
    entry = {"tool_id": "w", "name": "W", "description": "weather", "protocols": ["mcp"]}
    owner(root)("register_tool", entry=entry | {"protocol_meta": {"http": http}})

    (lacking,) = owner(root)("get_toolset", toolset_id="registered")["lacking"]
    _, printed = cli_in(root, "grant", "add", "registered", "--requested", "--no-terminal", "x")

    assert "DELETE https://api.github.com/repos/me/prod" in lacking["why"]
    question, _, _ = printed.partition(", until ")
    assert "DELETE https://api.github.com/repos/me/prod" in question


def test_the_page_shows_what_its_button_trusts(root: Path) -> None:
    pull(root, "LANG: C", "BASH_ENV: /tmp/evil.sh")
    owner(root)("trust_project")  # the role, so that its holder may grant over HTTP
    server = Api.of(root, role="owner").client()
    page = server.get("/toolsets/ev", base_url=HOME, headers=BEARER).text

    assert "BASH_ENV=&#39;/tmp/evil.sh&#39;" in page
    _, _, form_of_all = page.partition('action="/toolsets/ev/grants/requested"')
    all_fields, _, _ = form_of_all.partition("</form>")
    shown = re.findall(r'name="permission" value="([^"]+)"', all_fields)
    (digest,) = re.findall(r'name="digest" value="([^"]+)"', all_fields)

    def press(permissions: list[str]) -> int:
        url, form = "/toolsets/ev/grants/requested", {"permission": permissions, "digest": digest}
        return server.post(url, data=form, base_url=HOME, headers=BEARER).status_code

    assert press(shown[1:]) == 409
    assert "BASH_ENV" not in trusted(root)
    assert press(shown) == 303
    assert "BASH_ENV" in trusted(root)


EVIL_SOURCE = MANIFEST.replace("id: ev\nname", "id: incoming\nname").replace(
    "LANG: C", "BASH_ENV: /tmp/evil.sh"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of a toolset to import."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(EVIL_SOURCE)
    return folder


def test_an_import_with_trust_shows_what_it_trusts(root: Path, cli_in: Cli, source: Path) -> None:
    code, printed = cli_in(
        root, "bundle", "import", str(source), "--trust", "--no-terminal", "a test"
    )

    assert code == 0, printed
    question, _, _ = printed.partition("is imported and enabled")
    assert "/bin/cat a with BASH_ENV='/tmp/evil.sh' in the sandbox\n" in question
    assert "at https://mcp.good.example/mcp with X-Team='one'\n" in question
    assert all(line in question for line in trusted(root).splitlines())


def test_an_import_with_trust_trusts_no_more_than_it_showed(root: Path, source: Path) -> None:
    rules = "approvals: [{pattern: incoming.*, require: true}]\n"
    config = (root / "covalt.yaml").read_text()
    (root / "covalt.yaml").write_text(config + rules)
    owner(root)("trust_project")
    reviewed = owner(root)("import_toolset_from", source=str(source), dry_run=True)
    digests = [permission["digest"] for permission in reviewed["permissions"]]

    (root / "covalt.yaml").write_text(config)  # a pull, during the question
    request = {"source": str(source), "trust": reviewed["digest"], "permissions": digests}
    assert owner(root).error("import_toolset_from", **request).code == "moved"
    assert "incoming" not in trusted(root)


def test_a_grant_has_the_key_of_what_it_is_for(root: Path, cli_in: Cli) -> None:
    """Otherwise a decision about one secret or server would extend the grant of another."""
    owner(root)("add_grant", toolset_id="ev", kind="network", hosts=("evil.example",))
    text = (root / STATE).read_text()
    for key in ("secret-API_KEY", "network-b", "process-disk"):
        (root / STATE).write_text(text.replace("  network:\n", f"  {key}:\n"))

        code, printed = cli_in(root, "validate")
        assert code == 1
        assert f"'{key}' is not the key of this grant" in printed
        assert "write 'network'" in printed
        owner(root).error(
            "add_grant", toolset_id="ev", kind="secret", name="API_KEY", hosts=("a.example",)
        )
        assert "a.example" not in trusted(root)


def test_a_preview_shows_exactly_what_the_grant_trusts(root: Path, cli_in: Cli) -> None:
    decision = {"toolset_id": "ev", "kind": "server", "name": "disk", "hosts": ("a.example",)}
    preview = owner(root)("preview_grant", **decision)
    assert trusted(root) == ""
    assert not (root / STATE).exists()
    code, printed = cli_in(
        root, "grant", "add", "ev", "server", "disk", "--host", "a.example", "--dry-run"
    )
    assert code == 0
    assert all(line in printed for line in lines(preview["permissions"]).splitlines())

    pull(root, "args: [a]", "args: [b]")
    reviewed = {key: preview[key] for key in ("digest",)}
    digests = tuple(permission["digest"] for permission in preview["permissions"])
    for review in (reviewed, {"permissions": digests}):
        assert owner(root).error("add_grant", **decision, **review).code == "moved"
    pull(root, "args: [b]", "args: [a]")
    owner(root)("add_grant", **decision, **reviewed, permissions=digests)
    assert trusted(root) == lines(preview["permissions"])


def test_an_import_with_trust_checks_the_files_that_it_imports(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = owner(root)("import_toolset_from", source=str(source), dry_run=True)
    stage = staging.stage

    def stage_then_change(*args: Any) -> staging.Incoming:
        staged = stage(*args)
        (source / "toolset.yaml").write_text(EVIL_SOURCE.replace("/bin/cat", "/bin/evil"))
        return staged

    monkeypatch.setattr(staging, "stage", stage_then_change)
    done = owner(root)("import_toolset_from", source=str(source), trust=shown["digest"])

    assert done["digest"] == shown["digest"]
    assert "/bin/evil" not in (root / "toolsets/incoming/toolset.yaml").read_text()
    assert "/bin/evil" not in trusted(root)
    owner(root)("uninstall_toolset", toolset_id="incoming", force=True)
    request = {"source": str(source), "trust": shown["digest"]}
    assert owner(root).error("import_toolset_from", **request).code == "moved"
    assert not (root / "toolsets/incoming").exists()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("add_grant", {"kind": "process", "name": "disk"}),
        ("add_requested_grants", {}),
        ("renew_grants", {}),
    ],
)
def test_files_that_change_while_a_grant_waits_for_the_lock_are_not_granted(
    root: Path, name: str, fields: dict[str, Any]
) -> None:
    if name == "renew_grants":
        owner(root)("add_grant", toolset_id="ev", kind="process", name="disk")
        pull(root, "LANG: C", "LANG: D")
    reviewed = owner(root)("get_toolset", toolset_id="ev")["digest"]
    ended: list[str] = []

    def decide() -> None:
        try:
            ended.append(json.dumps(owner(root)(name, toolset_id="ev", digest=reviewed, **fields)))
        except CovaltError as error:
            ended.append(error.code)

    thread = threading.Thread(target=decide)
    with file_lock.held(root / "toolsets"):
        thread.start()
        until_one_waits(root / "toolsets")
        pull(root, "/bin/cat", "/bin/evil")
    thread.join(60)

    assert ended == ["moved"]
    assert "/bin/evil" not in trusted(root)
