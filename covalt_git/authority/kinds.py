"""The kinds of facts: what each says in words, and which way it is wider.

``came`` is what it means that a fact of that kind is there and was not; the opposite holds where it
is gone.  ``within`` tells that one item is part of another, so that ``api.example.com`` beside
``*.example.com`` is nothing new.  ``judge`` compares two values of one item; without it, another value
is nothing that anybody can tell.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.authority.approval_rules import always, judge_rules
from covalt_git.authority.facts import Fact, Judged, Verdict, unclear
from covalt_git.authority.pattern_subset import host_within, text_within, tools_within
from covalt_git.authority.schema_diff import judge_schemas
from covalt_git.hosts import BadHostError, origin_of
from covalt_git.templating.references import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.hosts import Origin
    from covalt_git.json_values import JsonObject


OPPOSITE: dict[Verdict, Verdict] = {
    "widening": "narrowing",
    "narrowing": "widening",
    "neutral": "neutral",
}


class Kind(NamedTuple):
    """One kind of fact.

    Attributes:
        has: the words for a fact that is there; ``{item}`` and ``{value}`` stand for its own.
        lost: the words for one that is gone.
        came: what a fact that came is; the opposite is what one that went is.
        judge: compares two values of one fact.
        within: tells whether the first item is part of the second.
        exists: whether it tells that its subject is there at all: others of it come and go with it.
        alone: whether it is told by itself although its subject came or went.
        unclear: whether nobody can tell what it means that one came or went.
        show: writes a value for people.
    """

    has: str
    lost: str
    came: Verdict = "widening"
    judge: Callable[[Fact, Fact], list[Judged]] | None = None
    within: Callable[[str, str], bool] | None = None
    exists: bool = False
    alone: bool = False
    unclear: bool = False
    show: Callable[[Any], str] = lambda value: shown(value)  # noqa: PLW0108 - it stands below

    def words(self, fact: Fact) -> str:
        """Return what a fact says, its subject left out; nothing where it says nothing by itself."""
        return self.has.format(item=fact.item, value=self.show(fact.value))

    def lost_words(self, fact: Fact) -> str:
        """Return what holds no longer."""
        return self.lost.format(item=fact.item, value=self.show(fact.value))


def shown(value: Any) -> str:
    """Return a value as it stands in a message."""
    if isinstance(value, list | tuple):
        return ", ".join(shown(one) for one in value) or "nothing"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(one)}" for name, one in sorted(value.items()))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def judge(old: Fact, new: Fact) -> list[Judged]:
    """Return what became of a fact that is in both states."""
    kind = KINDS[new.kind]
    if kind.judge is not None:
        return kind.judge(old, new)
    if old.value == new.value:
        return []
    return [unclear(f"{kind.words(new)} (was {kind.show(old.value)})")]


def _more(old: Fact, new: Fact) -> list[Judged]:
    """Compare limits: a larger one is wider, and none is the widest."""
    if old.value["own"] is None and new.value["own"] is None:
        return []  # what the project says is told of the project
    before, now = old.value["in_force"], new.value["in_force"]
    if before == now:
        return []
    most = float("inf")
    verdict: Verdict = "narrowing"
    if (most if now is None else now) > (most if before is None else before):
        verdict = "widening"
    words = f"{new.item} is {shown(now)} (was {shown(before)})"
    return [Judged(verdict, words)]


def _larger(old: Fact, new: Fact) -> list[Judged]:
    if old.value == new.value:
        return []
    verdict: Verdict = "widening" if new.value > old.value else "narrowing"
    return [Judged(verdict, f"{KINDS[new.kind].words(new)} (was {shown(old.value)})")]


def _either(yes: str, no: str, wider: bool) -> Callable[[Fact, Fact], list[Judged]]:  # noqa: FBT001 - it is the value that is wider
    def compare(old: Fact, new: Fact) -> list[Judged]:
        if old.value == new.value:
            return []
        verdict: Verdict = "widening" if new.value is wider else "narrowing"
        return [Judged(verdict, yes if new.value else no)]

    return compare


def _schema(old: Fact, new: Fact) -> list[Judged]:
    return judge_schemas(old.value, new.value)


def _package(old: Fact, new: Fact) -> list[Judged]:
    return [] if old.value == new.value else [judge_requirements(old.value, new.value)]


def _grant(old: Fact, new: Fact) -> list[Judged]:
    """Compare two grants that hold: what else than the digest can change makes it another grant.

    ``only`` are the HTTP tools that keep a grant after other files of the toolset have changed.
    """
    if old.value == new.value:
        return []
    words = KINDS[new.kind].words(new)
    if "only" not in old.value and new.value == old.value | {"only": new.value.get("only")}:
        return [Judged("narrowing", f"{words}: only its HTTP tools {shown(new.value['only'])}")]
    if "only" not in new.value and old.value == new.value | {"only": old.value.get("only")}:
        return [Judged("widening", f"{words} (was only its HTTP tools {shown(old.value['only'])})")]
    before = {name: value for name, value in old.value.items() if name != "digest"}
    now = {name: value for name, value in new.value.items() if name != "digest"}
    if before != now:
        return [unclear(f"{words} (was {shown(before)})")]
    return [unclear(f"{words}: granted again, for files that changed")]


def _use(old: Fact, new: Fact) -> list[Judged]:
    """Compare grants of a secret; one that names hosts is told by them."""
    return [] if old.implied or new.implied else _grant(old, new)


def _signer(old: Fact, new: Fact) -> list[Judged]:
    """Compare from when until when a key's signatures count; they count longer without a bound."""
    if old.value == new.value:
        return []
    told = KINDS[new.kind].words(new)
    when = f"{shown(new.value) or 'always'} (was {shown(old.value) or 'always'})"
    others = [
        {name: one for name, one in fact.value.items() if name not in _BOUNDS}
        for fact in (old, new)
    ]
    verdicts: set[Verdict] = set()
    for name, later_is in _BOUNDS.items():
        before, now = old.value.get(name), new.value.get(name)
        if before == now:
            continue
        if before and now and (before[-1] == "Z") != (now[-1] == "Z"):
            return [unclear(f"{told}: {when}")]
        # Without one it counts always: until the end of time, or from its beginning.
        least = {"valid-before": "9", "valid-after": ""}[name]
        later = (now or least).ljust(15, "0") > (before or least).ljust(15, "0")
        verdicts.add(later_is if later else OPPOSITE[later_is])
    if others[0] != others[1] or len(verdicts) > 1:
        return [unclear(f"{told}: {when}")]
    return [Judged(one, f"{told}: {when}") for one in verdicts]


_BOUNDS: dict[str, Verdict] = {"valid-before": "widening", "valid-after": "narrowing"}
"""The bounds of a signer, and what it means that one is later."""

_METHODS = {"HEAD": 0, "OPTIONS": 0, "GET": 1}
"""How much a method may do: one that only reads is less than the rest, of which nobody can tell."""


def _request(old: Fact, new: Fact) -> list[Judged]:
    """Compare two requests: a method that may do less is narrower, and another address is wider."""
    if old.value == new.value:
        return []
    words = f"{KINDS[new.kind].words(new)} (was {shown_request(old.value)})"
    before, now = (_METHODS.get(one.value["method"], 2) for one in (old, new))
    if before != now and old.value["url"] == new.value["url"]:
        return [Judged("widening" if now > before else "narrowing", words)]
    hosts = [origin(one.value["url"]) for one in (old, new)]
    if None in hosts or hosts[0] == hosts[1]:
        return [unclear(words)]
    gone = Judged("narrowing", f"no longer sends {shown_request(old.value)}")
    return [Judged("widening", words), gone]


def origin(url: str) -> Origin | None:
    """Return whom a template's requests go to; None where a variable decides, or nobody can tell."""
    if not isinstance(split(url)[0], str):
        return None
    try:
        return origin_of(url.partition("{")[0])[0]
    except BadHostError:
        return None


def shown_request(value: dict[str, str]) -> str:
    """Return a request as people write it."""
    by = f", an address that {value['by']} decides" if value["by"] else ""
    return f"{value['method']} {value['url']}{by}"


def _confirmation(old: Fact, new: Fact) -> list[Judged]:
    """Compare whether a tool asks; what only the project's rules changed is told of the rules."""
    if old.value["own"] == new.value["own"]:
        return []
    found = judge_rules(old.value["rules"], new.value["rules"])
    if found.verdict == "neutral":
        return []
    asked = ", ".join(_ASKS[one] for one in new.value["own"]["asks"])
    before = ", ".join(_ASKS[one] for one in old.value["own"]["asks"])
    words = shown_confirmation(new.value) + (f": {asked}" if asked else "")
    words += f" (before: {before})" if before else ""
    return [Judged(found.verdict, words, certain=found.certain)]


_ASKS = {
    "toolset": "the toolset wants it",
    "decorator": "its decorator wants it",
    "override": "an override wants it",
    "project": "this project wants it",
}


def shown_server(value: JsonObject) -> str:
    """Return what a server is: the program that is started, or the address."""
    if "command" in value:
        where = f" in {value['cwd']}" if value["cwd"] else ""
        return f"starts {shlex.join(value['command'])}{where}"
    return f"connects to {value['url']}"


def shown_confirmation(value: JsonObject) -> str:
    """Return in words whether a tool asks, its own wish and the project's rules together."""
    return {
        True: "asks a person first",
        False: "asks nobody first",
        None: "asks a person for some arguments",
    }[always(value["rules"])]


_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


def _listens(old: Fact, new: Fact) -> list[Judged]:
    before, now = old.value in _LOCAL, new.value in _LOCAL
    if old.value == new.value or (before and now):
        return []
    words = f"{KINDS[new.kind].words(new)} (was {old.value})"
    if before == now:
        return [unclear(words)]
    return [Judged("narrowing" if now else "widening", words)]


def _secret_within(narrow: str, wide: str) -> bool:
    name, _, host = narrow.partition(" to ")
    other, _, hosts = wide.partition(" to ")
    return name == other and host_within(host, hosts)


def _changed_quietly(old: Fact, new: Fact) -> list[Judged]:
    if old.value == new.value:
        return []
    return [Judged("neutral", "has other Python, within the same walls")]


KINDS: dict[str, Kind] = {
    # toolsets
    "toolset": Kind("is on", "is off, or gone", exists=True),
    "own": Kind(
        "{value}",
        "is gone",
        judge=_either(
            "is taken for the project's own: it runs on machines without a sandbox, too",
            "is taken for somebody else's: it runs in a sandbox only",
            wider=True,
        ),
        show=lambda own: "runs as the project's own" if own else "runs in a sandbox only",
    ),
    "code": Kind("", "", judge=_changed_quietly, came="neutral"),
    "secret": Kind("may ask for the secret {item}", "may no longer ask for the secret {item}"),
    "package": Kind(
        "installs the package {value}", "no longer installs the package {item}", judge=_package
    ),
    "alias": Kind("calls {item} {value}", "no longer calls {item} {value}", unclear=True),
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
    "server_grant": Kind(
        "may use the server {item}: {value}",
        "may no longer use the server {item}",
        judge=_grant,
        alone=True,
        show=lambda value: str(value["url"]),
    ),
    "stale": Kind("", "", came="neutral"),
    "unsandboxed": Kind(
        "may run without a sandbox",
        "may no longer run without a sandbox",
        judge=_grant,
        alone=True,
    ),
    # tools
    "tool": Kind("can be called", "can no longer be called", exists=True),
    "entrypoint": Kind("runs {value}", "runs {value} no longer"),
    "request": Kind("sends {value}", "sends {value} no longer", judge=_request, show=shown_request),
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
        "{value}", "", judge=_confirmation, came="narrowing", show=shown_confirmation
    ),
    "limit": Kind(
        "{item} is {value}", "", judge=_more, show=lambda value: shown(value["in_force"])
    ),
    "schema": Kind("", "", judge=_schema),
    "definition": Kind("has the definition {value}, which was accepted", ""),
    # what a token has to carry
    "token": Kind(
        "wants a token that permits it", "wants no token any more", came="narrowing", exists=True
    ),
    "audience": Kind("is for {value}", "is for anybody", came="narrowing"),
    "capability": Kind("needs {item}", "no longer needs {item}", came="narrowing"),
    "blast_radius": Kind("reaches {value} at most", "reaches everything", came="narrowing"),
    "execution": Kind(
        "{value}",
        "",
        judge=_either("holds for one execution", "holds for more than one execution", wider=False),
        show=lambda one: "holds for one execution" if one else "",
    ),
    "operation": Kind("may permit {item}", "may no longer permit {item}"),
    "target": Kind("may permit the target {item}", "may no longer permit the target {item}"),
    "protocol": Kind("may come over {item}", "may no longer come over {item}"),
    # servers, sources and ways to sign in
    "server": Kind("{value}", "is gone, or off", exists=True, show=shown_server),
    "variable": Kind("gets the variable {item}: {value}", "no longer gets the variable {item}"),
    "header": Kind("is sent the header {item}: {value}", "is no longer sent the header {item}"),
    "server_asks": Kind(
        "{value}",
        "",
        judge=_either("asks a person first", "asks nobody first", wider=False),
        show=lambda asks: "asks a person first" if asks else "asks nobody first",
    ),
    "asks_for": Kind(
        "asks a person first for {item}", "asks nobody first for {item}", came="narrowing"
    ),
    "source": Kind("gives tools: {value}", "is gone, or off", exists=True),
    "include": Kind("gives {item}", "no longer gives {item}", within=text_within),
    "exclude": Kind(
        "leaves out {item}", "no longer leaves out {item}", "narrowing", None, text_within
    ),
    "sign_in": Kind("signs in: {value}", "is gone", exists=True),
    "scope": Kind("asks for the scope {item}", "no longer asks for the scope {item}"),
    # covalt.yaml
    "role": Kind("is a role", "is no role any more", exists=True),
    "admin": Kind("is admin: may call, approve and grant everything", "is no longer admin"),
    "allow": Kind("may call {item}", "may no longer call {item}", within=tools_within),
    "deny": Kind(
        "may not call {item}", "is no longer denied {item}", "narrowing", None, tools_within
    ),
    "approve": Kind("may approve {item}", "may no longer approve {item}", within=tools_within),
    "answers_to": Kind("answers to the host name {item}", "no longer answers to {item}"),
    "listens": Kind("listens on {value}", "", judge=_listens),
    "issuer": Kind("is trusted: its tokens are accepted", "is trusted no longer", exists=True),
    "tokens_for": Kind("issues tokens for {value}", ""),
    "tokens_role": Kind("gives its tokens' holders the role {value}", ""),
    "keys": Kind("is known by the keys {value}", ""),
    "signer": Kind("trusts the signer {item}", "no longer trusts the signer {item}", judge=_signer),
    "secret_command": Kind("runs {value} for secrets", "runs no command for secrets"),
    "ignored": Kind("keeps no history of {item}", "keeps a history of {item}"),
    "max_file_mb": Kind("stores files of up to {value} MiB", "", judge=_larger),
    # compared as a whole by covalt_git.authority.comparison
    "approvals": Kind("asks a person by {value} rules", ""),
    "default_role": Kind("holds {value}", ""),
}


_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<versions>[^;\[@(]*?)\s*"
)
"""A name and clauses of versions; with extras, a marker or an address it is not compared (PEP 508)."""


def package_of(requirement: str) -> str:
    """Return the package's name as PyPI compares it (PEP 503); the whole text where it has none."""
    found = re.match(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)", requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else requirement


def judge_requirements(old: str, new: str) -> Judged:
    """Return whether other versions of a package may be installed than before."""
    words = f"may install {new.strip()} (was {old.strip()})"
    one, other = _REQUIREMENT.fullmatch(old), _REQUIREMENT.fullmatch(new)
    if old.strip() == new.strip():
        return Judged("neutral", words)
    if one is None or other is None:
        return unclear(words)
    before, now = _clauses(one["versions"]), _clauses(other["versions"])
    if before == now:
        return Judged("neutral", words)
    if before < now:
        return Judged("narrowing", words)
    return Judged("widening", words) if now < before else unclear(words)


def _clauses(versions: str) -> frozenset[str]:
    return frozenset("".join(one.split()) for one in versions.split(",") if one.strip())
