"""Kinds of facts: how each is described, and which of its changes are wider."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.authority.approval_rules import always, judge_rules
from covalt_git.authority.facts import Fact, Judgement, Verdict, unclear
from covalt_git.authority.pattern_subset import host_within, tools_within
from covalt_git.authority.program_uses import program_use_within
from covalt_git.authority.schema_meaning import judge_meaning
from covalt_git.json_values.difference import same
from covalt_git.templating.url_templates import origin_of_template

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_git.json_values import JsonObject


OPPOSITE: dict[Verdict, Verdict] = {
    "widening": "narrowing",
    "narrowing": "widening",
    "neutral": "neutral",
}


class Kind(NamedTuple):
    """One kind of fact.

    Attributes:
        has: description of a fact; ``{item}`` and ``{value}`` are replaced.
        lost: description of a removed fact.
        added: the verdict on a new fact; a removed one has the opposite verdict.
        judge: compares two different values of one fact; without it, a changed value is undecidable.
        within: returns whether the second item includes the first, as ``*.example.com`` includes
            ``api.example.com``; then the first adds no permission.
        exists: whether the fact states that its subject exists; the subject's other facts are then
            details of it.
        alone: whether the fact is reported separately if its subject is added or removed.
        unclear: whether adding and removing are undecidable.
        show: formats a value.
    """

    has: str
    lost: str
    added: Verdict = "widening"
    judge: Callable[[Fact, Fact], list[Judgement]] | None = None
    within: Callable[[str, str], bool] | None = None
    exists: bool = False
    alone: bool = False
    unclear: bool = False
    show: Callable[[Any], str] = lambda value: shown(value)  # noqa: PLW0108 - it is defined below

    def words(self, fact: Fact) -> str:
        """Return the description of a fact, without its subject; empty if it is never reported."""
        return self.has.format(item=fact.item, value=self.show(fact.value))

    def lost_words(self, fact: Fact) -> str:
        """Return the description of a removed fact."""
        return self.lost.format(item=fact.item, value=self.show(fact.value))


def shown(value: Any) -> str:
    """Return a value as text for messages."""
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value) or "nothing"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(item)}" for name, item in sorted(value.items()))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def judge(old: Fact, new: Fact) -> list[Judgement]:
    """Return the changes of a fact that is in both snapshots."""
    kind = KINDS[new.kind]
    if same(old.value, new.value):
        return []
    if kind.judge is not None:
        return kind.judge(old, new)
    # A kind without a rule of its own: a change that cannot be decided counts as wider.
    return [unclear(f"{kind.words(new)} (was {kind.show(old.value)})")]


def _more(old: Fact, new: Fact) -> list[Judgement]:
    """Compare limits: a larger limit is wider, and no limit is the widest."""
    if old.value["own"] is None and new.value["own"] is None:
        return []  # a change of the project's limit is reported once, for the project
    old_limit, new_limit = old.value["effective"], new.value["effective"]
    if old_limit == new_limit:
        return []
    most = float("inf")
    verdict: Verdict = "narrowing"
    if (most if new_limit is None else new_limit) > (most if old_limit is None else old_limit):
        verdict = "widening"
    words = f"{new.item} is {shown(new_limit)} (was {shown(old_limit)})"
    return [Judgement(verdict, words)]


def _larger(old: Fact, new: Fact) -> list[Judgement]:
    verdict: Verdict = "widening" if new.value > old.value else "narrowing"
    return [Judgement(verdict, f"{KINDS[new.kind].words(new)} (was {shown(old.value)})")]


def _either(yes: str, no: str, wider: bool) -> Callable[[Fact, Fact], list[Judgement]]:  # noqa: FBT001 - the wider value
    def compare(_: Fact, new: Fact) -> list[Judgement]:
        verdict: Verdict = "widening" if new.value is wider else "narrowing"
        return [Judgement(verdict, yes if new.value else no)]

    return compare


def _schema(old: Fact, new: Fact) -> list[Judgement]:
    """Compare the schemas that lists show, and what each parameter checks that they do not say."""
    if new.value["unread"] is None:
        return [unclear("its arguments are not known until its code can be read")]
    if old.value["unread"] is None:
        return [unclear("its arguments were not known, because its code could not be read")]
    judgements = judge_meaning(old.value["schema"], new.value["schema"])
    for name, digest in old.value["unread"].items():
        if new.value["unread"].get(name) == digest:
            continue
        if name and name not in new.value["schema"].get("properties", {}):
            continue  # an argument that is no longer accepted is a change of the schema
        subject = f"{name!r}" if name else "the arguments"
        words = f"{subject}: the source of what calls check, and no schema says, has changed"
        judgements.append(unclear(words, ("properties", name) if name else ()))
    return judgements


def _grant(old: Fact, new: Fact) -> list[Judgement]:
    """Compare two valid grants.

    ``only`` lists the HTTP tools that keep a grant after other files of the toolset have changed.
    """
    words = KINDS[new.kind].words(new)
    tools_before, tools_now = old.value.get("only"), new.value.get("only")
    old_grant, new_grant = (
        {name: value for name, value in fact.value.items() if name not in {"digest", "only"}}
        for fact in (old, new)
    )
    if old_grant != new_grant:
        return [unclear(f"{words} (was {shown(old_grant)})")]
    # The user renewed the grant for other code, which may do something else with it.
    if tools_before == tools_now:
        return [unclear(f"{words}: granted again, for files that changed")]
    reason = f"{_tools_of_grant(tools_now)} (was {_tools_of_grant(tools_before)})"
    is_clear = old.value["digest"] == new.value["digest"] and not (tools_before and tools_now)
    verdict: Verdict = "narrowing" if is_clear and tools_now else "widening"
    return [Judgement(verdict, words, certain=is_clear, reason=reason)]


def _tools_of_grant(only: Sequence[str] | None) -> str:
    return "all its tools" if only is None else f"only its HTTP tools {shown(only)}"


def _use(old: Fact, new: Fact) -> list[Judgement]:
    """Compare grants of a secret; a grant that names hosts is reported as ``secret_to``."""
    return [] if old.implied or new.implied else _grant(old, new)


def _request(old: Fact, new: Fact) -> list[Judgement]:
    """Compare two requests: another origin is wider, and other changes are undecidable."""
    words = f"{KINDS[new.kind].words(new)} (was {shown_request(old.value)})"
    hosts = [origin_of_template(fact.value["url"]) for fact in (old, new)]
    # A template decides its host at the call; at the same host, another path may delete what the old one read.
    if None in hosts or hosts[0] == hosts[1]:
        return [unclear(words)]
    gone = Judgement("narrowing", f"no longer sends {shown_request(old.value)}")
    return [Judgement("widening", words), gone]


def shown_request(value: dict[str, str]) -> str:
    """Return a request as text for messages."""
    by = f", a URL from {value['by']}" if value["by"] else ""
    return f"{value['method']} {value['url']}{by}"


def _confirmation(old: Fact, new: Fact) -> list[Judgement]:
    """Compare a tool's own approval setting; changed rules of the project are reported as rules."""
    if old.value["own"] == new.value["own"]:
        return []
    judgement = judge_rules(old.value["rules"], new.value["rules"])
    if judgement.verdict == "neutral":
        return []
    new_sources = ", ".join(_SOURCES[source] for source in new.value["own"]["asks"])
    old_sources = ", ".join(_SOURCES[source] for source in old.value["own"]["asks"])
    words = shown_confirmation(new.value) + (f": {new_sources}" if new_sources else "")
    words += f" (was: {old_sources})" if old_sources else ""
    return [Judgement(judgement.verdict, words, certain=judgement.certain)]


_SOURCES = {
    "toolset": "set by the toolset",
    "server_default": "the default for MCP servers",
    "decorator": "set by the decorator",
    "override": "set by an override",
    "project": "set by this project",
    "destructive": "destructive",
}


def shown_server(value: JsonObject) -> str:
    """Return the command that starts a server, or its URL."""
    if "command" in value:
        where = f" in {value['cwd']}" if value["cwd"] else ""
        return f"starts {shlex.join(value['command'])}{where}"
    return f"connects to {value['url']}"


def shown_confirmation(value: JsonObject) -> str:
    """Return whether a tool requires approval, by its own setting and the project's rules."""
    return {
        "ask": _APPROVAL,
        "allow": _NO_APPROVAL,
        "deny": "is denied",
        None: "requires approval for some arguments",
    }[always(value["rules"])]


_APPROVAL = "requires approval"
_NO_APPROVAL = "does not require approval"


_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


def _listens(old: Fact, new: Fact) -> list[Judgement]:
    was_local, is_local = old.value in _LOCAL, new.value in _LOCAL
    # Each of them is reached from this machine only.
    if was_local and is_local:
        return []
    words = f"{KINDS[new.kind].words(new)} (was {old.value})"
    if was_local == is_local:
        return [unclear(words)]
    return [Judgement("narrowing" if is_local else "widening", words)]


def _package(old: Fact, new: Fact) -> list[Judgement]:
    """Compare two versions of a package; their code decides what it does."""
    words = KINDS[new.kind].words(new)
    if old.value["version"] != new.value["version"]:
        return [unclear(f"{words} (was {old.value['version']})")]
    return [unclear(f"{words} with other hashes")]


def _secret_within(narrow: str, wide: str) -> bool:
    name, _, host = narrow.partition(" to ")
    other, _, hosts = wide.partition(" to ")
    return name == other and host_within(host, hosts)


def _code(_: Fact, __: Fact) -> list[Judgement]:
    return [Judgement("neutral", "has changed Python code, with the same permissions")]


def _skill(_: Fact, new: Fact) -> list[Judgement]:
    """Compare a skill's files: agents follow their text, whose effect cannot be decided."""
    return [unclear(f"gives agents the skill {new.item} with other instructions")]


KINDS: dict[str, Kind] = {
    # toolsets
    "toolset": Kind("is enabled", "is disabled or removed", exists=True),
    "own": Kind(
        "{value}",
        "is removed",
        judge=_either(
            "counts as the project's own: it also runs on machines without a sandbox",
            "counts as imported: it runs only in a sandbox",
            wider=True,
        ),
        show=lambda own: "runs as the project's own" if own else "runs only in a sandbox",
    ),
    "code": Kind("", "", judge=_code, added="neutral"),
    "skill": Kind(
        "gives agents the skill {item}", "no longer gives agents the skill {item}", judge=_skill
    ),
    "secret": Kind("may request the secret {item}", "may no longer request the secret {item}"),
    "sign_in": Kind("may request the sign-in {item}", "may no longer request the sign-in {item}"),
    "sign_in_scope": Kind(
        "may request the scope of the sign-in {item}",
        "may no longer request the scope of the sign-in {item}",
    ),
    "sign_in_to": Kind(
        "may request to send the token of the sign-in {item}",
        "may no longer request to send the token of the sign-in {item}",
        within=_secret_within,
    ),
    "package": Kind("installs the package {value}", "no longer installs the package {item}"),
    "alias": Kind("renames {item} to {value}", "no longer renames {item}", unclear=True),
    # grants
    "network": Kind(
        "may reach {item}",
        "may no longer reach {item}",
        judge=_grant,
        within=host_within,
        alone=True,
    ),
    "secret_use": Kind(
        "may use the secret {item}",
        "may no longer use the secret {item}",
        judge=_use,
        alone=True,
    ),
    "secret_to": Kind(
        "may send the secret {item}",
        "may no longer send the secret {item}",
        judge=_grant,
        within=_secret_within,
        alone=True,
    ),
    "process": Kind(
        "may start the server {item}: {value}",
        "may no longer start the server {item}",
        judge=_grant,
        alone=True,
        show=lambda value: shlex.join(value["argv"]),
    ),
    "server_use": Kind(
        "may run the server {item}",
        "may no longer run the server {item}",
        within=program_use_within,
        alone=True,
    ),
    "server_grant": Kind(
        "may use the server {item}: {value}",
        "may no longer use the server {item}",
        judge=_grant,
        alone=True,
        show=lambda value: str(value["url"]),
    ),
    "stale": Kind("", "", judge=lambda _, __: [], added="neutral"),
    "unsandboxed": Kind(
        "may run without a sandbox",
        "may no longer run without a sandbox",
        judge=_grant,
        alone=True,
    ),
    # tools
    "tool": Kind("can be called", "can no longer be called", exists=True),
    "entrypoint": Kind("runs {value}", "no longer runs {value}"),
    "forwards": Kind("forwards calls to {value}", "no longer forwards calls to {value}"),
    "request": Kind("sends {value}", "no longer sends {value}", judge=_request, show=shown_request),
    "sent": Kind("sends {item}: {value}", "no longer sends {item}", unclear=True),
    "uses": Kind("uses the secret {item}", "no longer uses the secret {item}"),
    "reads_file": Kind("sends a file of the workspace: {item}", "no longer sends the file {item}"),
    "writes": Kind(
        "{value}",
        "",
        judge=_either("may change the workspace", "may only read the workspace", wider=True),
        show=lambda may: "may change the workspace" if may else "only reads the workspace",
    ),
    "confirmation": Kind(
        "{value}", "", judge=_confirmation, added="narrowing", show=shown_confirmation
    ),
    "page_call": Kind(
        "shows a page that may call {item}",
        "shows no page that may call {item}",
        within=tools_within,
    ),
    "limit": Kind(
        "{item} is {value}", "", judge=_more, show=lambda value: shown(value["effective"])
    ),
    "schema": Kind("", "", judge=_schema),
    "offer": Kind("can be read, with the definition {value}", "can no longer be read"),
    "definition": Kind("has the accepted definition {value}", ""),
    # required properties of a token
    "token": Kind("is required", "is no longer required", added="narrowing", exists=True),
    "audience": Kind("has the audience {value}", "may have any audience", added="narrowing"),
    "capability": Kind("needs {item}", "no longer needs {item}", added="narrowing"),
    "blast_radius": Kind(
        "has at most the blast radius {value}", "may have any blast radius", added="narrowing"
    ),
    "execution": Kind(
        "{value}",
        "",
        judge=_either(
            "is valid for one execution", "is valid for more than one execution", wider=False
        ),
        show=lambda once: "is valid for one execution" if once else "",
    ),
    "operation": Kind("may permit {item}", "may no longer permit {item}"),
    "target": Kind("may permit the target {item}", "may no longer permit the target {item}"),
    "protocol": Kind("may come over {item}", "may no longer come over {item}"),
    # servers
    "server": Kind("{value}", "is removed or disabled", exists=True, show=shown_server),
    "variable": Kind("gets the variable {item}: {value}", "no longer gets the variable {item}"),
    "header": Kind("is sent the header {item}: {value}", "is no longer sent the header {item}"),
    "server_file": Kind(
        "starts the program {value}",
        "no longer starts a program of the system",
        show=lambda value: f"{value['path']} {value['sha256']}",
    ),
    "server_program": Kind("starts the file {value} of its packages", "starts no package"),
    "server_package": Kind(
        "runs the package {item} {value}",
        "no longer runs the package {item}",
        judge=_package,
        show=lambda value: str(value["version"]),
    ),
    "server_asks": Kind(
        "{value}",
        "",
        judge=_either(_APPROVAL, _NO_APPROVAL, wider=False),
        show=lambda asks: _APPROVAL if asks else _NO_APPROVAL,
    ),
    # covalt.yaml
    "role": Kind("is defined", "is no longer defined", exists=True),
    "admin": Kind("is admin: may call, approve and grant everything", "is no longer admin"),
    "allow": Kind("may call {item}", "may no longer call {item}", within=tools_within),
    "deny": Kind(
        "may not call {item}", "is no longer denied {item}", "narrowing", None, tools_within
    ),
    "approve": Kind("may approve {item}", "may no longer approve {item}", within=tools_within),
    "approve_own": Kind(
        "may approve its own calls over MCP", "may no longer approve its own calls over MCP"
    ),
    "chats": Kind("may manage chats", "may no longer manage chats"),
    "register": Kind("may register tools", "may no longer register tools"),
    "answers_to": Kind("accepts the host name {item}", "no longer accepts the host name {item}"),
    "listens": Kind("listens on {value}", "", judge=_listens),
    "issuer": Kind("is trusted: its tokens are accepted", "is no longer trusted", exists=True),
    "tokens_for": Kind("issues tokens for {value}", ""),
    "tokens_role": Kind("issues tokens with the role {value}", ""),
    "keys": Kind("has the keys {value}", ""),
    "signer": Kind("trusts the signer {item}", "no longer trusts the signer {item}"),
    "secret_command": Kind("runs {value} for secrets", "runs no command for secrets"),
    # Neither is harmless: one uses a key of the user, the other ends what shows who did what.
    "sign_key": Kind(
        "signs the commits of chats with the key {value}",
        "no longer signs the commits of chats",
        unclear=True,
    ),
    # Neither direction is harmless: another server gets the chats, or they are on one machine only.
    "chats_on": Kind(
        "stores the chats on {value}", "no longer stores the chats on a git server", unclear=True
    ),
    "creates_by": Kind("runs {value} for each new chat", "runs no command for new chats"),
    "sends_to_storage": Kind(
        "sends {value} to the git server of the chats",
        "sends no password to the git server of the chats",
    ),
    # Neither direction is harmless: all tools, rules and grants are those of the repository, or no longer are.
    "follows": Kind(
        "runs the project of {value}", "runs the project of its own folder", unclear=True
    ),
    "sends_to_project": Kind(
        "sends {value} to the git server of the project",
        "sends no password to the git server of the project",
    ),
    "ignored": Kind("does not commit {item}", "commits {item}"),
    "max_file_mb": Kind("stores files of up to {value} MiB", "", judge=_larger),
}


def package_of(requirement: str) -> str:
    """Return the normalized package name of a requirement (PEP 503); the text itself if it has none."""
    name = re.match(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)", requirement)
    return re.sub(r"[-_.]+", "-", name[1]).lower() if name else requirement
