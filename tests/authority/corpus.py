"""One-change commits over the sample project: what each changes, and what has to be said of it.

``wider`` and ``narrower`` hold a part of each line that has to be told; a change that has none of
one kind may tell none of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from covalt_git.models.tool_lock import locked_tool
from tests.authority.sample_project import COVALT as COVALT_TEXT
from tests.authority.sample_project import (
    MORE,
    READ,
    READ_DEFINITION,
    WIPE,
    digest_of,
    guest_state,
    sample,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.authority.sample_project import Files

COVALT = "covalt.yaml"
NOTES = "toolsets/notes/toolset.yaml"
NOTES_PY = "toolsets/notes/tools/notes.py"
WEB = "toolsets/web/toolset.yaml"
GEAR = "toolsets/gear/toolset.yaml"
LOCK = "toolsets/locks/disk.yaml"
GEAR_STATE = "toolsets/state/gear.yaml"
GUEST = "toolsets/guest/toolset.yaml"
GUEST_STATE = "toolsets/state/guest.yaml"
LOOK_PY = "toolsets/guest/tools/look.py"
PARKED = "toolsets/parked/toolset.yaml"
PARKED_STATE = "toolsets/state/parked.yaml"
NOTES_STATE = "toolsets/state/notes.yaml"


@dataclass(frozen=True)
class Case:
    """A change by its name, and parts of the lines that have to be told of it.

    ``is_false`` marks a change that permits nothing more and counts as wider all the same.
    """

    name: str
    edit: Callable[[Files], None]
    wider: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()
    is_false: bool = False


def swap(path: str, old: str, new: str, *, times: int = 1) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        assert files[path].count(old) >= 1, (path, old)
        files[path] = files[path].replace(old, new, times)

    return edit


def put(path: str, text: str) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        files[path] = text

    return edit


def given(old: str, new: str, *, accepted: bool = False, **said: Any) -> Callable[[Files], None]:
    """Let a server give another definition of its tool ``read``, which is accepted or not."""
    digest = locked_tool(READ_DEFINITION | said).digest
    steps = [swap(LOCK, old, new), swap(LOCK, READ.digest, digest)]
    steps += [swap(GEAR_STATE, READ.digest, digest)] * accepted
    return both(*steps)


def drop(*paths: str) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        for path in paths:
            del files[path]

    return edit


def both(*edits: Callable[[Files], None]) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        for one in edits:
            one(files)

    return edit


def granted_again(files: Files) -> None:
    files[GUEST_STATE] = guest_state(files)


def granted_for(old: str, new: str) -> Callable[[Files], None]:
    """Change the guest's manifest, and grant it again what it was granted, for what it is now."""
    return both(swap(GUEST, old, new), granted_again)


def secret_for_python(files: Files) -> None:
    """Let the notes ask for a secret, and grant it without a host."""
    files[NOTES] += "secrets: [FORGE_TOKEN]\n"
    said = f"digest: '{digest_of(files, 'notes')}', granted_at: '2026-11-20T17:24:00Z'"
    grant = f"{{kind: secret, name: FORGE_TOKEN, {said}, granted_by: me}}"
    files[NOTES_STATE] = f"grants:\n  secret-FORGE_TOKEN: {grant}\n"


def covalt(
    name: str, old: str, new: str, wider: str = "", narrower: str = "", *, is_false: bool = False
) -> Case:
    return replace(_case(name, swap(COVALT, old, new), wider, narrower), is_false=is_false)


def notes(name: str, old: str, new: str, wider: str = "", narrower: str = "") -> Case:
    return _case(name, swap(NOTES, old, new), wider, narrower)


def web(name: str, old: str, new: str, wider: str = "", narrower: str = "") -> Case:
    return _case(name, swap(WEB, old, new), wider, narrower)


def gear(name: str, old: str, new: str, wider: str = "", narrower: str = "") -> Case:
    return _case(name, swap(GEAR, old, new), wider, narrower)


def _case(name: str, edit: Callable[[Files], None], wider: str, narrower: str) -> Case:
    return Case(name, edit, (wider,) if wider else (), (narrower,) if narrower else ())


NEW_TOOL = '  - {id: fresh, entrypoint: "tools.notes:list_all"}\n  - id: list_all\n'
ROLES_TEXT = COVALT_TEXT[COVALT_TEXT.index("default_role") : COVALT_TEXT.index("approvals")]
RULE_ENV = '  - pattern: "notes.write"\n    when: {args: {path: "*.env"}}\n'
RULE_WEB = '  - pattern: "web.**"\n    when: {annotations: {destructive: true}}\n'
RULE_LIST = '  - pattern: "notes.list_*"\n    require: false\n'

TOOLS = [
    notes("a tool comes", "  - id: list_all\n", NEW_TOOL, "notes:fresh can be called"),
    Case(
        "a tool goes",
        both(
            swap(NOTES, "  - id: erase\n    entrypoint: tools.notes:erase\n", ""),
            swap(NOTES, "  - tool_id: erase\n    requires_confirmation: true\n", ""),
        ),
        (),
        ("notes:erase can no longer be called",),
    ),
    notes("a tool is switched on", "    enabled: false\n", "", "notes:old can be called"),
    notes(
        "a tool is switched off",
        "  - id: erase\n",
        "  - id: erase\n    enabled: false\n",
        narrower="notes:erase can no longer",
    ),
    notes(
        "all tools are off by default",
        "tools:\n",
        "defaults: {enabled: false}\ntools:\n",
        narrower="notes:write can no longer",
    ),
    notes(
        "an override switches a tool on",
        "tool_overrides:\n",
        "tool_overrides:\n  - {tool_id: old, enabled: true}\n",
        "notes:old can be called",
    ),
    notes(
        "an override switches a tool off",
        "    renderer: code\n",
        "    renderer: code\n    enabled: false\n",
        narrower="notes:list_all can no longer",
    ),
    Case(
        "the project switches a tool on",
        put(NOTES_STATE, "overrides:\n  old: {enabled: true}\n"),
        ("notes:old can be called",),
    ),
    Case(
        "the project switches a tool off",
        put(NOTES_STATE, "overrides:\n  erase: {enabled: false}\n"),
        (),
        ("notes:erase can no longer",),
    ),
    notes(
        "a tool runs another function",
        "tools.notes:write",
        "tools.notes:erase",
        "notes:write runs tools.notes:erase (was tools.notes:write)",
    ),
    notes(
        "a tool may write",
        "annotations: {read_only: true}\n  - id: erase",
        "annotations: {read_only: false}\n  - id: erase",
        "notes:list_all may change the workspace",
    ),
    notes(
        "a tool only reads",
        "    entrypoint: tools.notes:erase\n",
        "    entrypoint: tools.notes:erase\n    annotations: {read_only: true}\n",
        narrower="notes:erase may only read",
    ),
    notes(
        "a tool gets another id",
        "  - id: erase\n",
        "  - id: remove\n",
        "notes:remove can be called",
        "notes:erase can no longer",
    ),
    Case(
        "a toolset comes",
        put(
            "toolsets/new/toolset.yaml",
            'id: new\nname: New\nversion: "1"\ntools:\n  - {id: go, http: {url: "https://new.example.com/"}}\n',
        ),
        ("new is on", "new:go can be called"),
    ),
    Case(
        "a toolset goes",
        drop(WEB),
        (),
        (
            "web is off, or gone",
            "web:get_page can no longer",
            "web:post_page can no longer",
            "web:any_host can no longer",
        ),
    ),
    Case(
        "a toolset is switched off",
        put(NOTES_STATE, "enabled: false\n"),
        (),
        ("notes is off", "notes:write can no longer", "notes:list_all", "notes:erase"),
    ),
    Case(
        "an imported toolset is switched on",
        swap(PARKED_STATE, "source_ref", "enabled: true\nsource_ref"),
        ("parked is on", "parked:go can be called"),
    ),
    Case(
        "an imported toolset passes for our own", drop(PARKED_STATE), ("parked is on", "parked:go")
    ),
    Case(
        "a guest passes for our own",
        swap(GUEST_STATE, "source_ref: guest.zip\nsource_type: zip\n", ""),
        ("guest is taken for the project's own",),
    ),
    Case(
        "our own toolset passes for a guest",
        put(NOTES_STATE, "enabled: true\nsource_type: zip\n"),
        (),
        ("notes is taken for somebody else's",),
    ),
]

CONFIRMATION = [
    notes(
        "a tool asks no longer",
        "    requires_confirmation: true\n    input",
        "    input",
        "notes:write asks",
    ),
    notes(
        "a tool says that it asks not",
        "    requires_confirmation: true\n    input",
        "    requires_confirmation: false\n    input",
        "notes:write asks",
    ),
    notes(
        "an override asks no longer",
        "  - tool_id: erase\n    requires_confirmation: true\n",
        "",
        "notes:erase asks nobody first",
    ),
    notes("the default asks", "tools:\n", "defaults: {requires_confirmation: true}\ntools:\n"),
    web(
        "a tool begins to ask",
        "  - id: get_page\n",
        "  - id: get_page\n    requires_confirmation: true\n",
        narrower="web:get_page asks a person first",
    ),
    web(
        "the default asks for all",
        "tools:\n",
        "defaults: {requires_confirmation: true}\ntools:\n",
        narrower="web:get_page asks a person first",
    ),
    Case(
        "a decorator asks no longer where a rule let it pass",
        swap(NOTES_PY, "requires_confirmation=True", "requires_confirmation=False"),
    ),
    Case(
        "a decorator asks from now on",
        swap(NOTES_PY, "def erase", "@tool(requires_confirmation=True)\ndef erase"),
    ),
    Case(
        "the project lets a tool pass",
        put(NOTES_STATE, "overrides:\n  erase: {requires_confirmation: false}\n"),
        ("notes:erase asks nobody first",),
    ),
    Case(
        "the project asks no longer about a guest",
        swap(GUEST_STATE, "requires_confirmation: true", "requires_confirmation: false"),
        ("guest:look asks nobody first",),
    ),
    Case(
        "the project asks about another tool",
        swap(GUEST_STATE, "  look:", "  ask: {requires_confirmation: true}\n  look:"),
        (),
        ("guest:ask asks a person first",),
    ),
    web(
        "an annotation escapes a rule",
        "    annotations: {destructive: true}\n",
        "    annotations: {destructive: false}\n",
        "web:post_page asks nobody first",
    ),
    web(
        "an annotation meets a rule",
        "    annotations: {read_only: true, destructive: false}\n",
        "    annotations: {read_only: true, destructive: true}\n",
        narrower="web:get_page asks a person first",
    ),
]

RULES = [
    covalt(
        "the rule about env files goes",
        RULE_ENV,
        "",
        "has no rule any more that asks for notes.write",
    ),
    covalt(
        "the rule about destructive tools goes",
        RULE_WEB,
        "",
        "has no rule any more that asks for web.**",
    ),
    covalt(
        "the rule that lets lists pass goes",
        RULE_LIST,
        "",
        narrower="has no rule any more that lets notes.list_* pass",
    ),
    covalt(
        "a rule asks about everything",
        "approvals:\n",
        'approvals:\n  - pattern: "**"\n',
        narrower="new rule that asks for **",
    ),
    covalt(
        "a rule lets everything pass",
        "approvals:\n",
        'approvals:\n  - {pattern: "**", require: false}\n',
        "new rule that lets ** pass",
    ),
    covalt(
        "a rule lets one argument pass",
        "approvals:\n",
        'approvals:\n  - {pattern: "notes.erase", when: {args: {path: "tmp/*"}}, require: false}\n',
        "new rule that lets notes.erase pass where path is 'tmp/*'",
    ),
    covalt(
        "a rule asks for one argument",
        "approvals:\n",
        'approvals:\n  - {pattern: "web.**", when: {args: {page: "admin*"}}}\n',
        narrower="new rule that asks for web.**",
    ),
    covalt(
        "a rule asks about fewer arguments",
        'path: "*.env"',
        'path: "secret/*.env"',
        "has no rule any more that asks for notes.write where path is '*.env'",
        "has a new rule that asks for notes.write where path is 'secret/*.env'",
    ),
    covalt(
        "a rule asks about more arguments",
        'path: "*.env"',
        'path: "*"',
        "has no rule any more that asks for notes.write where path is '*.env'",
        "has a new rule that asks for notes.write where path is '*'",
        is_false=True,
    ),
    covalt(
        "a rule asks about fewer tools",
        '"web.**"',
        '"web.post_*"',
        "has no rule any more that asks for web.**",
        "has a new rule that asks for web.post_*",
    ),
    covalt(
        "a rule asks about more tools",
        '"web.**"',
        '"**"',
        "has no rule any more that asks for web.**",
        "has a new rule that asks for **",
        is_false=True,
    ),
    covalt(
        "a rule stops asking",
        "when: {annotations: {destructive: true}}\n",
        "when: {annotations: {destructive: true}}\n    require: false\n",
        "lets web.** pass",
    ),
    covalt(
        "a rule begins to ask",
        '"notes.list_*"\n    require: false',
        '"notes.list_*"\n    require: true',
        narrower="asks for notes.list_*",
    ),
    covalt(
        "rules that do not touch change places",
        RULE_ENV + RULE_WEB,
        RULE_WEB + RULE_ENV,
        "its approval rules are in another order",
        is_false=True,
    ),
    covalt(
        "a rule that lets pass goes first",
        "approvals:\n" + RULE_ENV,
        'approvals:\n  - {pattern: "notes.*", require: false}\n' + RULE_ENV,
        "new rule that lets notes.* pass",
    ),
    covalt(
        "a rule that is written twice",
        RULE_ENV,
        RULE_ENV + RULE_ENV,
        narrower="has a new rule that asks for notes.write",
    ),
    covalt(
        "a rule within another one",
        RULE_WEB,
        RULE_WEB + '  - {pattern: "web.post_*", when: {annotations: {destructive: true}}}\n',
        narrower="has a new rule that asks for web.post_*",
    ),
    covalt(
        "a rule with another annotation",
        "destructive: true}}",
        "destructive: true, open_world: true}}",
        "has no rule any more that asks for web.** where destructive true",
        "has a new rule that asks for web.** where destructive true, open_world true",
    ),
    covalt(
        "a rule without its annotation",
        "    when: {annotations: {destructive: true}}\n",
        "",
        "has no rule any more that asks for web.** where destructive true",
        "has a new rule that asks for web.**",
        is_false=True,
    ),
]

ROLES = [
    covalt(
        "a role may call more of a toolset",
        '"web.get_*"',
        '"web.*"',
        "role 'author' may call web.*",
    ),
    covalt(
        "a role may call less of a toolset",
        '"web.get_*"',
        '"web.get_page"',
        narrower="role 'author' may no longer call web.get_*",
    ),
    covalt("a role may call everything", '"gear.**"', '"**"', "role 'author' may call **"),
    covalt(
        "a role may call another toolset",
        '"gear.**"',
        '"gear.**", "guest.*"',
        "role 'author' may call guest.*",
    ),
    covalt(
        "a role may not call a toolset any more",
        ', "gear.**"',
        "",
        narrower="role 'author' may no longer call gear.**",
    ),
    covalt("a role is allowed what it was", '"notes.*"', '"notes.*", "notes.write"'),
    covalt("a role's patterns change places", '"notes.*", "web.get_*"', '"web.get_*", "notes.*"'),
    covalt(
        "a role is denied no more",
        '    deny: ["notes.erase"]\n',
        "",
        "role 'author' is no longer denied notes.erase",
    ),
    covalt(
        "a role is denied less",
        '["notes.erase"]',
        '["notes.erase_all"]',
        "is no longer denied notes.erase",
        "role 'author' may not call notes.erase_all",
    ),
    covalt(
        "a role is denied more",
        '["notes.erase"]',
        '["notes.*"]',
        narrower="role 'author' may not call notes.*",
    ),
    covalt("a role is denied what it was", '["notes.erase"]', '["notes.erase", "notes.erase"]'),
    covalt(
        "a role may approve more",
        'approve: ["notes.*"]',
        'approve: ["**"]',
        "role 'reviewer' may approve **",
    ),
    covalt(
        "a role may approve less",
        'approve: ["notes.*"]',
        'approve: ["notes.write"]',
        narrower="role 'reviewer' may no longer approve notes.*",
    ),
    covalt(
        "a role becomes admin",
        "name: Author\n",
        "name: Author\n    admin: true\n",
        "role 'author' is admin",
    ),
    covalt(
        "a role is admin no more",
        "    admin: true\n",
        '    allow: ["notes.*"]\n',
        narrower="role 'owner' is no longer admin",
    ),
    covalt(
        "an admin is denied something",
        "    admin: true\n",
        '    admin: true\n    deny: ["notes.erase"]\n',
        narrower="role 'owner' may not call notes.erase",
    ),
    covalt(
        "a role comes",
        "  owner:\n",
        '  helper:\n    allow: ["web.**"]\n  owner:\n',
        "role 'helper' is a role",
    ),
    covalt("a role that may do nothing comes", "  owner:\n", "  guest: {}\n  owner:\n"),
    covalt(
        "a role goes",
        "  owner:\n    admin: true\n",
        "",
        narrower="role 'owner' is no role any more",
    ),
    covalt(
        "the default role becomes admin",
        "default_role: author",
        "default_role: owner",
        "the person at this machine holds the role 'owner'",
    ),
    covalt(
        "the default role is another one",
        "default_role: author",
        "default_role: reviewer",
        "the person at this machine holds the role 'reviewer'",
    ),
    covalt(
        "there is no default role any more",
        "default_role: author\n",
        "",
        narrower="the person at this machine holds no role",
    ),
    covalt("a role gets another name for people", "name: Author", "name: Writer"),
    Case(
        "no roles are defined any more",
        swap(COVALT, ROLES_TEXT, ""),
        ("the person at this machine may do everything",),
    ),
]


PROJECT = [
    covalt(
        "calls may take longer",
        "{timeout_s: 60",
        "{timeout_s: 600",
        "the project timeout_s is 600 (was 60)",
    ),
    covalt(
        "calls may take less long",
        "{timeout_s: 60",
        "{timeout_s: 6",
        narrower="the project timeout_s is 6 (was 60)",
    ),
    covalt(
        "memory has no limit any more",
        ", memory_mb: 512",
        "",
        "the project memory_mb is none (was 512)",
    ),
    covalt(
        "processes get a limit",
        "{timeout_s: 60",
        "{processes: 4, timeout_s: 60",
        narrower="the project processes is 4 (was none)",
    ),
    covalt("the default limit is written out", "{timeout_s: 60", "{output_mb: 16, timeout_s: 60"),
    covalt(
        "approvals wait longer",
        "approval_expires_s: 3600",
        "approval_expires_s: 7200",
        "approval_expires_s is 7200",
    ),
    covalt(
        "approvals wait less long",
        "approval_expires_s: 3600",
        "approval_expires_s: 60",
        narrower="approval_expires_s is 60",
    ),
    covalt(
        "the server listens everywhere",
        "host: 127.0.0.1",
        "host: 0.0.0.0",
        "the project listens on 0.0.0.0 (was 127.0.0.1)",
    ),
    covalt(
        "the server listens on this machine by another name", "host: 127.0.0.1", "host: localhost"
    ),
    covalt(
        "the server answers to another name",
        "[tools.example.com]",
        "[tools.example.com, other.example.com]",
        "answers to the host name other.example.com",
    ),
    covalt(
        "the server answers to a name no longer",
        ", allowed_hosts: [tools.example.com]",
        "",
        narrower="no longer answers to tools.example.com",
    ),
    covalt("another port", "port: 8787", "port: 8788"),
    covalt(
        "an issuer stands twice, with another role",
        "issuers:\n",
        'issuers:\n  - {issuer: "https://id.example.com", jwks_file: keys/id.json, audience: covalt, role: owner}\n',
        "gives its tokens' holders the role",
    ),
    covalt(
        "an issuer comes",
        "issuers:\n",
        'issuers:\n  - {issuer: "https://evil.example", jwks_file: keys/id.json, audience: covalt}\n',
        "issuer 'https://evil.example' is trusted",
    ),
    covalt(
        "an issuer's tokens are for another audience",
        "audience: covalt",
        "audience: other",
        "issues tokens for other",
    ),
    covalt(
        "an issuer's tokens get another role",
        "role: reviewer",
        "role: owner",
        "gives its tokens' holders the role owner",
    ),
    Case(
        "an issuer's keys change",
        put("keys/id.json", '{"keys": [{}]}\n'),
        ("is known by the keys keys/id.json",),
    ),
    covalt(
        "an issuer goes",
        '  - {issuer: "https://id.example.com", jwks_file: keys/id.json, audience: covalt, role: reviewer}\n',
        "  []\n",
        narrower="is trusted no longer",
    ),
    covalt(
        "a signer comes",
        "signers: [",
        'signers: ["mallory@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC", ',
        "trusts the signer mallory@example.com",
    ),
    covalt(
        "a signer's key ends",
        "alice@example.com ssh-ed25519",
        'alice@example.com valid-before=\\"20270101\\" ssh-ed25519',
        narrower="trusts the signer alice@example.com ssh-ed25519",
    ),
    covalt(
        "a signer goes",
        'signers: ["alice@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"]',
        "signers: []",
        narrower="no longer trusts the signer alice",
    ),
    covalt(
        "another command for secrets",
        "[pass, show,",
        "[curl, evil,",
        "runs curl evil '{name}' for secrets (was pass show '{name}')",
    ),
    covalt(
        "the command for secrets is cut into other arguments",
        "[pass, show,",
        '["pass show",',
        "runs 'pass show' '{name}' for secrets (was pass show '{name}')",
    ),
    covalt(
        "no command for secrets",
        'secret_command: [pass, show, "{name}"]\n',
        "",
        narrower="runs no command for secrets",
    ),
    covalt(
        "something is kept no history of",
        "node_modules/]",
        "node_modules/, out/]",
        "keeps no history of out/",
    ),
    covalt(
        "a history of something is kept",
        ", node_modules/]",
        "]",
        narrower="keeps a history of node_modules/",
    ),
    covalt(
        "larger files are stored",
        "max_file_mb: 50",
        "max_file_mb: 500",
        "stores files of up to 500 MiB",
    ),
    covalt(
        "smaller files are stored",
        "max_file_mb: 50",
        "max_file_mb: 5",
        narrower="stores files of up to 5 MiB",
    ),
]

SCHEMAS = [
    notes(
        "a new argument",
        "        mode: {enum",
        "        force: {type: boolean}\n        mode: {enum",
        "takes a new argument 'force'",
    ),
    notes(
        "an argument goes",
        "        count: {type: integer, minimum: 1, maximum: 10}\n",
        "",
        narrower="takes no argument 'count' any more",
    ),
    notes(
        "other arguments are let in",
        "      additionalProperties: false\n",
        "",
        "the arguments: additionalProperties none, was false",
    ),
    notes(
        "an argument may be longer",
        "maxLength: 100",
        "maxLength: 1000",
        "'path': maxLength 1000, was 100",
    ),
    notes(
        "an argument may be less long",
        "maxLength: 100",
        "maxLength: 10",
        narrower="'path': maxLength 10, was 100",
    ),
    notes(
        "an argument may be of any length",
        "maxLength: 100, ",
        "",
        "'path': maxLength none, was 100",
    ),
    notes(
        "an argument's pattern goes",
        ', pattern: "^notes/"',
        "",
        "'path': pattern none, was \"^notes/\"",
    ),
    notes(
        "an argument gets another pattern",
        '"^notes/"',
        '"^n"',
        '\'path\': pattern "^n", was "^notes/"',
    ),
    notes(
        "an argument gets a pattern",
        "count: {type: integer",
        "count: {multipleOf: 2, type: integer",
        narrower="'count': multipleOf 2, was none",
    ),
    notes(
        "an enumeration grows",
        "[new, append]",
        "[new, append, replace]",
        "'mode': enum now includes \"replace\"",
    ),
    notes(
        "an enumeration shrinks",
        "[new, append]",
        "[new]",
        narrower="'mode': enum no longer includes \"append\"",
    ),
    notes(
        "an enumeration becomes any text",
        "{enum: [new, append]}",
        "{type: string}",
        "'mode': enum none, was",
        "'mode': type \"string\", was none",
    ),
    notes("an enumeration changes places", "[new, append]", "[append, new]"),
    notes("a number may be larger", "maximum: 10", "maximum: 99", "'count': maximum 99, was 10"),
    notes("a number may be smaller", "minimum: 1,", "minimum: 0,", "'count': minimum 0, was 1"),
    Case(
        "a number may be less large",
        swap(NOTES, "maximum: 10", "exclusiveMaximum: 10"),
        ("'count': maximum none, was 10",),
        ("'count': exclusiveMaximum 10, was none",),
        is_false=True,
    ),
    notes(
        "a bound is written in another way",
        "maximum: 10}",
        "maximum: 10, exclusiveMaximum: 11}",
        narrower="'count': exclusiveMaximum 11, was none",
    ),
    notes(
        "another type as well",
        "count: {type: integer",
        "count: {type: [integer, string]",
        "'count': type now includes \"string\"",
    ),
    notes(
        "any number for an integer",
        "count: {type: integer",
        "count: {type: number",
        "'count': type now includes \"number\"",
    ),
    notes("more items", "maxItems: 5", "maxItems: 50", "'tags': maxItems 50, was 5"),
    notes(
        "longer items",
        "items: {type: string, maxLength: 20}",
        "items: {type: string, maxLength: 200}",
        "'tags[]': maxLength 200, was 20",
    ),
    notes(
        "items of any kind", ", items: {type: string, maxLength: 20}", "", "'tags': items none, was"
    ),
    notes(
        "an argument may be left out",
        "required: [path, mode]",
        "required: [path]",
        'the arguments: required no longer includes "mode"',
    ),
    notes(
        "an argument has to be given",
        "required: [path, mode]",
        "required: [path, mode, count]",
        narrower='the arguments: required now includes "count"',
    ),
    notes("a description of an argument", "mode: {enum", "mode: {description: How, enum"),
    notes("a default of an argument", "minimum: 1,", "default: 3, minimum: 1,"),
    Case(
        "Python takes a new argument",
        swap(NOTES_PY, "deep: bool = False", "deep: bool = False, follow: bool = False"),
        ("notes:list_all: takes a new argument 'follow'",),
    ),
    Case(
        "Python takes an argument no longer",
        swap(NOTES_PY, ", deep: bool = False", ""),
        (),
        ("notes:list_all: takes no argument 'deep' any more",),
    ),
    Case(
        "Python takes another type",
        swap(NOTES_PY, "folder: str", "folder: str | int"),
        ("notes:list_all: 'folder': anyOf",),
    ),
    Case(
        "Python needs no argument any more",
        swap(NOTES_PY, "folder: str,", 'folder: str = "",'),
        ('notes:list_all: the arguments: required no longer includes "folder"',),
    ),
    Case(
        "Python needs an argument",
        swap(NOTES_PY, "deep: bool = False", "deep: bool"),
        (),
        ('notes:list_all: the arguments: required now includes "deep"',),
    ),
]

LIMITS_AND_TOKENS = [
    notes(
        "a tool may take longer",
        "timeout_s: 30",
        "timeout_s: 300",
        "notes:write timeout_s is 60 (was 30)",
    ),
    notes(
        "a tool may take no longer than the project lets it",
        "  - id: list_all\n",
        "  - id: list_all\n    limits: {timeout_s: 600, memory_mb: 9999}\n",
    ),
    Case(
        "the project lets a tool take less than it wants",
        swap(COVALT, "memory_mb: 512", "memory_mb: 128"),
        (),
        ("the project memory_mb is 128 (was 512)", "notes:write memory_mb is 128 (was 256)"),
    ),
    notes(
        "a tool may take less long",
        "timeout_s: 30",
        "timeout_s: 3",
        narrower="notes:write timeout_s is 3 (was 30)",
    ),
    notes(
        "a tool loses a limit of its own",
        ", memory_mb: 256",
        "",
        "notes:write memory_mb is 512 (was 256)",
    ),
    notes(
        "a tool gets a limit of its own",
        "  - id: list_all\n",
        "  - id: list_all\n    limits: {memory_mb: 64}\n",
        narrower="notes:list_all memory_mb is 64 (was 512)",
    ),
    notes(
        "a tool writes out the project's limit",
        "  - id: list_all\n",
        "  - id: list_all\n    limits: {memory_mb: 512}\n",
    ),
    notes(
        "a token is for another audience",
        "example.com/notes",
        "example.com/other",
        "its token is for https://tools.example.com/other",
    ),
    notes(
        "a token needs less",
        "required_capabilities: [notes.write]",
        "required_capabilities: []",
        "its token no longer needs notes.write",
    ),
    notes(
        "a token needs more",
        "[notes.write]\n      max",
        "[notes.write, admin]\n      max",
        narrower="its token needs admin",
    ),
    notes(
        "a token reaches another scope",
        '"namespace:notes"',
        '"namespace:all"',
        "its token reaches namespace:all at most",
    ),
    notes(
        "a token reaches everything",
        '      max_blast_radius: "namespace:notes"\n',
        "",
        "its token reaches everything",
    ),
    notes(
        "a token holds for more than one execution",
        "requires_execution: true",
        "requires_execution: false",
        "holds for more than one execution",
    ),
    notes(
        "a token may permit another operation",
        "allowed_operations: [write]",
        "allowed_operations: [write, erase]",
        "may permit erase",
    ),
    notes(
        "a token may permit no operation",
        "allowed_operations: [write]",
        "allowed_operations: []",
        narrower="may no longer permit write",
    ),
    notes(
        "a token may permit another target",
        '["notes:drafts"]',
        '["notes:drafts", "notes:all"]',
        "may permit the target notes:all",
    ),
    notes(
        "a tool may be called over another protocol",
        "protocols: [mcp]",
        "protocols: [mcp, http]",
        "may come over http",
    ),
    notes(
        "a tool wants a token",
        "  - id: erase\n",
        "  - id: erase\n    security: {required_capabilities: [x]}\n",
        narrower="notes:erase, its token wants a token",
    ),
]

PACKAGES = [
    notes("a package comes", '["jinja2', '["requests", "jinja2', "installs the package requests"),
    notes(
        "a package goes",
        ', "markdown==3.6"',
        "",
        narrower="no longer installs the package markdown",
    ),
    notes(
        "a package is held less",
        "jinja2>=3,<4",
        "jinja2>=3",
        "may install jinja2>=3 (was jinja2>=3,<4)",
    ),
    notes(
        "a package is held more",
        "jinja2>=3,<4",
        "jinja2>=3,<4,!=3.1",
        narrower="may install jinja2>=3,<4,!=3.1",
    ),
    notes(
        "another version of a package",
        "markdown==3.6",
        "markdown==3.7",
        "may install markdown==3.7",
    ),
    notes(
        "packages change places",
        '"jinja2>=3,<4", "markdown==3.6"',
        '"markdown==3.6", "jinja2<4,>=3"',
    ),
]

REQUESTS = [
    web(
        "another host",
        "https://api.example.com/v1/pages/{page}",
        "https://evil.example/v1/pages/{page}",
        "web:get_page sends GET https://evil.example/v1/pages/{page} (was GET https://api.example.com",
        "web:get_page no longer sends GET https://api.example.com/v1/pages/{page}",
    ),
    web(
        "a broader path",
        "/v1/pages/{page}",
        "/v1/{+page}",
        "web:get_page sends GET https://api.example.com/v1/{+page}",
    ),
    Case(
        "a narrower path",
        swap(WEB, "https://api.example.com/v1/{+path}", "https://api.example.com/v1/drafts/{path}"),
        ("web:post_page sends POST https://api.example.com/v1/drafts/{path}",),
        is_false=True,
    ),
    web(
        "another method",
        "  - id: get_page\n    http:\n",
        "  - id: get_page\n    http:\n      method: DELETE\n",
        "web:get_page sends DELETE",
    ),
    web(
        "a method that only reads",
        "      method: POST\n",
        "      method: GET\n",
        narrower="web:post_page sends GET",
    ),
    web(
        "a host that a secret decides",
        "https://api.example.com/v1/pages/{page}",
        "${BASE_URL}/v1/pages/{page}",
        "an address that BASE_URL decides",
    ),
    web(
        "another secret in a header",
        "Accept: application/json",
        'X-Other: "${OTHER_KEY}", Accept: application/json',
        "web:get_page uses the secret OTHER_KEY",
    ),
    web(
        "a secret in no header any more",
        'Authorization: "Bearer ${API_KEY}", ',
        "",
        narrower="web:get_page no longer uses the secret API_KEY",
    ),
    web(
        "another header",
        "Accept: application/json",
        "Accept: application/json, X-Admin: yes",
        "web:get_page sends headers X-Admin: yes",
    ),
    web(
        "another query",
        "query: {format: json}",
        "query: {format: all}",
        "web:get_page sends query format: all (was json)",
    ),
    web(
        "a query less",
        "      query: {format: json}\n",
        "",
        "web:get_page no longer sends query format",
    ),
    web(
        "a file of the workspace is sent",
        "{title: {in: query}}",
        "{title: {in: query}, page: {in: body, file: true}}",
        "web:post_page sends a file of the workspace: the argument page",
    ),
    web("more retries", "retries: 1", "retries: 5", "web:get_page retries is 5 (was 1)"),
    web("fewer retries", "retries: 1", "retries: 0", narrower="web:get_page retries is 0 (was 1)"),
    web(
        "another secret is asked for",
        "secrets: [",
        "secrets: [ROOT_KEY, ",
        "web may ask for the secret ROOT_KEY",
    ),
    web(
        "a secret is asked for no longer",
        "OTHER_KEY, ",
        "",
        narrower="web may no longer ask for the secret OTHER_KEY",
    ),
    web("secrets change places", "API_KEY, OTHER_KEY", "OTHER_KEY, API_KEY"),
]

SERVERS = [
    gear(
        "a server with other arguments",
        "[--root, data]",
        "[--root, /]",
        "server gear:disk starts disk-server --root / (was starts disk-server --root data)",
    ),
    gear(
        "another program",
        "command: disk-server",
        "command: sh",
        "server gear:disk starts sh --root data",
    ),
    gear(
        "another folder for a server",
        "    args: [--root, data]\n",
        "    args: [--root, data]\n    cwd: tools\n",
        "server gear:disk starts disk-server --root data in tools",
    ),
    gear(
        "a variable for a server",
        "{DISK_MODE: quiet}",
        '{DISK_MODE: quiet, TOKEN: "${FORGE_TOKEN}"}',
        "server gear:disk gets the variable TOKEN",
    ),
    gear(
        "another value of a variable",
        "DISK_MODE: quiet",
        "DISK_MODE: loud",
        "server gear:disk gets the variable DISK_MODE: loud (was quiet)",
    ),
    gear(
        "a variable less for a server",
        "    env: {DISK_MODE: quiet}\n",
        "",
        narrower="no longer gets the variable DISK_MODE",
    ),
    gear(
        "another address of a server",
        "https://mcp.example.com/mcp",
        "https://evil.example/mcp",
        "server gear:remote connects to https://evil.example/mcp",
    ),
    gear(
        "another header to a server",
        "{X-Team: tools}",
        '{X-Team: tools, Authorization: "${FORGE_TOKEN}"}',
        "is sent the header Authorization",
    ),
    gear(
        "a server's tools ask no longer",
        "    command: disk-server\n",
        "    command: disk-server\n    requires_confirmation: false\n",
        "server gear:disk asks nobody first",
    ),
    gear(
        "a server is switched on",
        "    enabled: false\n",
        "",
        "server gear:spare starts spare-server",
    ),
    gear(
        "a server is switched off",
        "    url: https://mcp",
        "    enabled: false\n    url: https://mcp",
        narrower="server gear:remote is gone, or off",
    ),
    gear(
        "a server comes",
        "mcp_servers:\n",
        "mcp_servers:\n  - {id: more, command: more-server}\n",
        "server gear:more starts more-server",
    ),
    gear(
        "a source gives more",
        '["issues.*"]',
        '["issues.*", "repos.*"]',
        "source gear:forge gives repos.*",
    ),
    gear(
        "a source gives everything", '    include: ["issues.*"]\n', "", "source gear:forge gives *"
    ),
    gear(
        "a source gives less",
        '["issues.*"]',
        '["issues.list"]',
        narrower="source gear:forge no longer gives issues.*",
    ),
    gear(
        "a source leaves out less",
        '    exclude: ["issues.delete"]\n',
        "",
        "source gear:forge no longer leaves out issues.delete",
    ),
    gear(
        "a source leaves out more",
        '["issues.delete"]',
        '["issues.*"]',
        narrower="source gear:forge leaves out issues.*",
    ),
    Case(
        "a source's document changes",
        put("toolsets/gear/specs/forge.yaml", "openapi: 3.1.1\n"),
        ("source gear:forge gives tools",),
    ),
    gear(
        "a source goes by another token",
        "${FORGE_TOKEN}",
        "${OTHER_TOKEN}",
        "source gear:forge gives tools",
    ),
    gear(
        "a sign-in asks for more",
        "scopes: [read]",
        "scopes: [read, write]",
        "sign-in gear:forge asks for the scope write",
    ),
    gear(
        "a sign-in asks for less",
        "scopes: [read]",
        "scopes: []",
        narrower="no longer asks for the scope read",
    ),
    gear(
        "a sign-in with another provider",
        "provider: forge",
        "provider: evil",
        "sign-in gear:forge signs in: provider evil",
    ),
    gear(
        "an override wants a server's tool to pass, which only the project may",
        "auth:\n",
        'tool_overrides:\n  - {tool_id: "disk:list", requires_confirmation: false}\nauth:\n',
    ),
    gear(
        "an override asks for a server's tool, as its server does",
        "auth:\n",
        'tool_overrides:\n  - {tool_id: "disk:list", requires_confirmation: true}\nauth:\n',
    ),
    gear(
        "an override wants a tool that was accepted to pass, which only the project may",
        "auth:\n",
        'tool_overrides:\n  - {tool_id: "disk:read", requires_confirmation: false}\nauth:\n',
    ),
    Case(
        "the project lets a server's tool pass",
        put(
            GEAR_STATE,
            f"accepted:\n  disk:read: {READ.digest}\n"
            "overrides:\n  disk:read: {requires_confirmation: false}\n",
        ),
        ("disk:read asks nobody first",),
    ),
    gear(
        "an override asks for a source's tool",
        "auth:\n",
        'tool_overrides:\n  - {tool_id: "forge:list", requires_confirmation: true}\nauth:\n',
        narrower="gear asks a person first for forge:list",
    ),
    Case(
        "a lock entry is accepted",
        swap(GEAR_STATE, "accepted:\n", f"accepted:\n  disk:wipe: {WIPE.digest}\n"),
        ("disk:wipe can be called",),
    ),
    Case(
        "a lock entry is accepted no longer",
        put(GEAR_STATE, "enabled: true\n"),
        (),
        ("disk:read can no longer be called",),
    ),
    Case(
        "a lock entry changes and is not accepted",
        given(
            "upstream: read", "upstream: read\n    description: All of it", description="All of it"
        ),
        (),
        ("disk:read can no longer be called",),
    ),
    Case(
        "a lock entry is changed by hand",
        swap(LOCK, "upstream: read", "upstream: read\n    description: All of it"),
        ("toolsets/gear has errors in HEAD",),
        ("disk:read can no longer be called",),
    ),
    Case(
        "a lock entry changes and is accepted",
        given(
            "upstream: read",
            "upstream: read\n    description: All of it",
            accepted=True,
            description="All of it",
        ),
        ("disk:read has the definition",),
    ),
    Case(
        "a tool that was accepted calls another one there",
        given("upstream: read", "upstream: wipe", accepted=True, name="wipe"),
        ("disk:read has the definition",),
    ),
    Case(
        "a tool that was accepted says no longer that it only reads",
        given(
            "annotations: {read_only: true}",
            "annotations: {read_only: false}",
            accepted=True,
            annotations={"readOnlyHint": False},
        ),
        ("disk:read has the definition",),
    ),
    Case(
        "a lock entry comes and is not accepted",
        swap(
            LOCK,
            "  wipe:",
            f"  more:\n    upstream: more\n    digest: {MORE.digest}\n    input_schema: {{type: object}}\n  wipe:",
        ),
    ),
]

GRANTS = [
    Case(
        "another host is granted",
        swap(GUEST_STATE, '"guest.example.org"', '"guest.example.org", "evil.example"'),
        ("guest may reach evil.example",),
    ),
    Case(
        "a host is granted no longer",
        swap(GUEST_STATE, ', "guest.example.org"', ""),
        (),
        ("guest may no longer reach guest.example.org",),
    ),
    Case(
        "a host is granted that was covered",
        swap(GUEST_STATE, '"guest.example.org"', '"guest.example.org", "api.example.com"'),
    ),
    Case(
        "a broader host is granted",
        swap(GUEST_STATE, '"guest.example.org"', '"*.example.org"'),
        ("guest may reach *.example.org",),
    ),
    Case(
        "a narrower host is granted",
        swap(GUEST_STATE, '"*.example.com"', '"api.example.com"'),
        (),
        ("guest may no longer reach *.example.com",),
    ),
    Case(
        "a port of a host is granted",
        swap(GUEST_STATE, '"guest.example.org"', '"guest.example.org", "guest.example.org:8443"'),
        ("guest may reach guest.example.org:8443",),
    ),
    Case(
        "a secret may go to another host",
        swap(GUEST_STATE, "[guest.example.com]", "[guest.example.com, evil.example]"),
        ("guest may send the secret GUEST_KEY to evil.example",),
    ),
    Case(
        "a secret may go nowhere",
        swap(GUEST_STATE, "hosts: [guest.example.com]", "hosts: []"),
        (),
        ("guest may no longer send the secret GUEST_KEY",),
    ),
    Case(
        "a secret is granted to Python",
        secret_for_python,
        ("notes may use the secret FORGE_TOKEN",),
    ),
    Case(
        "a process is granted another argv",
        granted_for("args: [--fast]", "args: [--root]"),
        ("guest may start the server helper: helper --root",),
    ),
    Case(
        "a process is granted another variable",
        granted_for("HOME: /srv", "HOME: /srv, PATH: /bin"),
        ("guest may start the server helper",),
    ),
    Case(
        "a server is granted another address",
        granted_for("https://far.example.com/mcp", "https://evil.example/mcp"),
        ("guest may use the server far: https://evil.example/mcp",),
    ),
    Case(
        "a network is granted",
        swap(GUEST_STATE, '"guest.example.org"', '"guest.example.org", "10.0.0.0/8"'),
        ("guest may reach 10.0.0.0/8",),
    ),
    Case(
        "a run without a sandbox is granted no longer",
        swap(GUEST_STATE, "  unsandboxed:", "  # unsandboxed:"),
        (),
        ("guest may no longer run without a sandbox",),
    ),
    Case(
        "a file changes, and all grants end",
        swap(LOOK_PY, "return path", "return path.upper()"),
        (),
        (
            "guest may no longer reach",
            "guest may no longer send",
            "guest may no longer run without",
        ),
    ),
    Case(
        "a server is another than was granted",
        swap(GUEST, "args: [--fast]", "args: [--fast, --more]"),
        ("server guest:helper starts helper --fast --more",),
        (
            "guest may no longer reach",
            "guest may no longer send",
            "guest may no longer start",
            "guest may no longer run without",
        ),
    ),
    Case(
        "a grant says another command than the manifest",
        swap(GUEST_STATE, '"--fast"', '"--root"'),
        (),
        ("guest may no longer start the server helper",),
    ),
    Case(
        "a file changes, and all is granted again",
        both(swap(LOOK_PY, "return path", "return path.upper()"), granted_again),
        (
            "guest may reach *.example.com: granted again, for files that changed",
            "guest may send",
            "guest may run without a sandbox: granted again",
        ),
    ),
    Case(
        "a grant is for other files",
        swap(
            PARKED_STATE,
            "source_ref",
            "grants:\n  network: {kind: network, hosts: [x.example.com], digest: '"
            + READ.digest
            + "', granted_at: '2026-11-20T17:24:00Z', granted_by: me}\nsource_ref",
        ),
    ),
    Case(
        "a toolset that is off is granted a host",
        lambda files: swap(
            PARKED_STATE,
            "source_ref",
            "grants:\n  network: {kind: network, hosts: [x.example.com], digest: '"
            + digest_of(files, "parked")
            + "', granted_at: '2026-11-20T17:24:00Z', granted_by: me}\nsource_ref",
        )(files),
        ("parked may reach x.example.com",),
    ),
    Case(
        "somebody else granted it", swap(GUEST_STATE, "granted_by: me", "granted_by: you", times=9)
    ),
]

NEUTRAL = [
    Case("a README changes", put("README.md", "# Another one\n")),
    Case("a toolset's README changes", put("toolsets/notes/README.md", "Other notes.\n")),
    covalt("a comment changes", "# Who may do what.", "# Who may do what, and why."),
    notes("a comment in a toolset changes", "# Notes of a chat.", "# Notes of all chats."),
    notes("a description changes", "Write a note", "Write a note down"),
    notes("a toolset's name changes", "name: Notes", "name: All Notes"),
    notes("a version changes", '"1.0.0"', '"1.1.0"'),
    notes("a renderer changes", "renderer: code", "renderer: document"),
    notes("tags come", "  - id: erase\n", "  - id: erase\n    tags: [gone]\n"),
    notes(
        "an example comes", "  - id: erase\n", "  - id: erase\n    examples: [{args: {path: a}}]\n"
    ),
    notes("extensions come", "tools:\n", "extensions: {other: 1}\ntools:\n"),
    notes(
        "tools change places",
        "  - id: erase\n    entrypoint: tools.notes:erase\n  - id: old\n",
        "  - id: erase\n    entrypoint: tools.notes:erase\n  - id: old\n    name: Old\n",
    ),
    Case(
        "Python of a toolset without grants changes",
        swap(NOTES_PY, "return []", "return sorted([])"),
    ),
    Case("a docstring changes", swap(NOTES_PY, "List notes.", "List all notes.")),
    Case("a toolset that is off changes", swap(PARKED, "parked.example.com", "other.example.com")),
    Case(
        "a toolset that is off comes",
        both(
            put(
                "toolsets/asleep/toolset.yaml",
                'id: asleep\nname: A\nversion: "1"\ntools:\n  - {id: go, http: {url: "https://x.example/"}}\n',
            ),
            put("toolsets/state/asleep.yaml", "source_type: zip\n"),
        ),
    ),
    gear("a server that is off changes", "command: spare-server", "command: other-server"),
    notes(
        "a tool that is off changes",
        "    entrypoint: tools.notes:list_all\n    enabled: false",
        "    entrypoint: tools.notes:erase\n    enabled: false",
    ),
    Case("a state file says what holds anyway", put(NOTES_STATE, "enabled: true\n")),
    covalt(
        "keys change places",
        "version: 1\ndefault_role: author\n",
        "default_role: author\nversion: 1\n",
    ),
    covalt("durability changes", "max_file_mb: 50\n", "max_file_mb: 50\n  durability: fast\n"),
]

BROKEN = [
    Case(
        "covalt.yaml is no YAML any more",
        put(COVALT, "roles: [\n"),
        ("covalt.yaml has errors in HEAD",),
    ),
    Case(
        "covalt.yaml has an unknown key",
        swap(COVALT, "default_role", "standard_role"),
        ("covalt.yaml has errors in HEAD",),
    ),
    Case("covalt.yaml is gone", drop(COVALT), ("covalt.yaml has errors in HEAD",)),
    Case(
        "a toolset is no YAML any more", put(WEB, "id: [\n"), ("toolsets/web has errors in HEAD",)
    ),
    Case(
        "a toolset has an unknown key",
        swap(WEB, "  - id: get_page\n", "  - id: get_page\n    oops: 1\n"),
        ("toolsets/web has errors in HEAD",),
    ),
    Case(
        "Python does not parse any more",
        put(NOTES_PY, "def (:\n"),
        ("toolsets/notes has errors in HEAD",),
    ),
    Case(
        "a state file is no YAML any more",
        put(GUEST_STATE, "grants: [\n"),
        ("toolsets/guest has errors in HEAD",),
    ),
    Case(
        "a lock is no YAML any more", put(LOCK, "tools: [\n"), ("toolsets/gear has errors in HEAD",)
    ),
]

CASES = [
    *TOOLS, *CONFIRMATION, *RULES, *ROLES, *PROJECT, *SCHEMAS, *LIMITS_AND_TOKENS, *PACKAGES, *REQUESTS,
    *SERVERS, *GRANTS, *NEUTRAL, *BROKEN,
]  # fmt: skip


def changed(case: Case) -> Files:
    """Return the sample with the change of a case."""
    files = sample()
    case.edit(files)
    return files
