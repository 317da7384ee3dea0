"""A pull ends no approval of a toolset with grants, by whatever rule, annotation or default, without a question."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from covalt_git.access import decide_call
from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import read_config
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, Permission, config_permissions, trusted_config
from tests.examples import examples
from tests.operations_client import Operations
from tests.trusting import use_config

GRANT = {
    "kind": "network",
    "hosts": ["a.example"],
    "digest": "sha256:" + "0" * 64,
    "granted_at": "2026-01-01T00:00:00Z",
    "granted_by": "them",
}
State = dict[str, Any]
"""The documents of a project: ``rules``, the manifest's ``tools`` and more of its keys, and ``state``."""


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who trusts nothing yet."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)


def write(root: Path, state: State) -> None:
    (root / "toolsets/ev").mkdir(parents=True, exist_ok=True)
    (root / "toolsets/state").mkdir(exist_ok=True)
    config = {"version": 1, "approvals": state["rules"]}
    manifest = {"id": "ev", "name": "Ev", "version": "1", **state["manifest"]}
    own = {"grants": {"network": GRANT}, **state.get("state", {})}
    (root / "covalt.yaml").write_text(json.dumps(config))
    (root / "toolsets/ev/toolset.yaml").write_text(json.dumps(manifest))
    (root / "toolsets/state/ev.yaml").write_text(json.dumps(own))


def lacking(root: Path) -> list[Permission]:
    """Return what a call of the toolset lacks: rules that are not trusted waive nothing."""
    config = trusted_config(read_config(root), Consents.of(root))
    return Consents.of(root).lacking(permissions_of(read_toolset(root, "ev"), config))


def trust(root: Path) -> None:
    config = read_config(root)
    permissions = [*config_permissions(config), *permissions_of(read_toolset(root, "ev"), config)]
    Consents.of(root).trust(permissions)


def project(tmp_path: Path, rules: list[State], *tools: State) -> Path:
    root = tmp_path / "clone"
    write(root, {"rules": rules, "manifest": {"tools": list(tools)}})
    return root


def pay(**more: object) -> State:
    return {"id": "pay", "http": {"url": "https://a.example/{x}"}, **more}


READ_ONLY = {"annotations": {"read_only": True}}
SMALL = {"pattern": "ev.*", "when": {"args": {"x": "small"}, **READ_ONLY}, "require": False}


def test_a_waiver_of_some_calls_is_no_trust_in_the_others(tmp_path: Path) -> None:
    root = project(tmp_path, [SMALL], pay(requires_confirmation=True, **READ_ONLY))
    trust(root)
    assert lacking(root) == []

    write(root, {"rules": [SMALL], "manifest": {"tools": [pay(**READ_ONLY)]}})

    assert [one.text for one in lacking(root)] == ["ev may call without approval: pay"]


def test_an_annotation_that_makes_an_earlier_waiver_apply_needs_trust(tmp_path: Path) -> None:
    rules = [
        {"pattern": "ev.*", "when": READ_ONLY, "require": False},
        {"pattern": "ev.*", "require": True},
    ]
    root = project(tmp_path, rules, pay())
    trust(root)
    assert lacking(root) == []

    write(root, {"rules": rules, "manifest": {"tools": [pay(**READ_ONLY)]}})

    assert [one.text for one in lacking(root)] == ["ev may call without approval: pay"]


def test_a_trusted_grant_is_no_trust_in_what_a_rule_waives(tmp_path: Path) -> None:
    rule = {"pattern": "ev.pay", "when": {"args": {"x": "dry"}, **READ_ONLY}, "require": False}
    request = {"method": "DELETE", "url": "https://a.example/{x}"}
    root = project(tmp_path, [rule], pay(http=request, **READ_ONLY))
    state = root / "toolsets/state/ev.yaml"
    state.unlink()

    Operations(root)("add_grant", toolset_id="ev", kind="network", hosts=("a.example",))

    assert lacking(root) == []  # the rule is not trusted, so all calls need approval
    manifest = {"tools": [pay(http=request, requires_confirmation=False, **READ_ONLY)]}
    granted = json.dumps(read_toolset(root, "ev").state.model_dump(mode="json", exclude_none=True))
    write(root, {"rules": [rule], "manifest": manifest, "state": json.loads(granted)})
    assert [one.text for one in lacking(root)] == ["ev may call without approval: pay"]


def test_an_override_is_no_trust_in_what_a_rule_waives(tmp_path: Path) -> None:
    rules = [SMALL, {"pattern": "ev.*", "when": {"args": {"x": "*"}}, "require": True}]
    root = project(tmp_path, rules, pay(requires_confirmation=True, **READ_ONLY))
    Operations(root)("override_tool", tool_id="ev:pay", requires_confirmation=False)
    Consents.of(root).trust(config_permissions(read_config(root)))

    texts = [one.text for one in lacking(root) if "approval" in one.text]

    assert texts == ['ev may call without approval: pay when x is "small"']


def test_to_clear_an_override_that_a_tool_does_not_have_trusts_nothing(tmp_path: Path) -> None:
    root = project(tmp_path, [], pay(requires_confirmation=True))
    trust(root)
    write(root, {"rules": [], "manifest": {"tools": [pay(requires_confirmation=False)]}})

    Operations(root)("override_tool", tool_id="ev:pay", clear=("requires_confirmation", "renderer"))

    assert [one.text for one in lacking(root)] == ["ev may call without approval: pay"]


def test_a_shells_argument_that_a_pull_declares_to_be_none_needs_trust(tmp_path: Path) -> None:
    rule = {"pattern": "ev.*", "when": {"args": {"line": "git *"}}, "require": False}
    schema = {"type": "object", "properties": {"line": {"type": "string", "x-shell": True}}}
    asks = {"requires_confirmation": True, "http": {"url": "https://a.example"}}
    root = project(tmp_path, [rule], {"id": "run", **asks, "input_schema": schema})
    trust(root)
    assert lacking(root) == []

    del schema["properties"]["line"]["x-shell"]  # type: ignore[index]
    write(
        root,
        {"rules": [rule], "manifest": {"tools": [{"id": "run", **asks, "input_schema": schema}]}},
    )

    assert len(lacking(root)) == 1


def test_a_default_of_the_tool_that_an_alias_calls_limits_the_alias(tmp_path: Path) -> None:
    rule = {"pattern": "registered.*", "when": {"args": {"x": "all"}}, "require": True}
    schema = {"type": "object", "properties": {"x": {"type": "string", "default": "all"}}}
    root = project(tmp_path, [rule], pay(input_schema=schema))
    entry = {"tool_id": "alias", "name": "A", "protocols": ["mcp"]}
    target = {"mcp": {"tool": "ev:pay"}}
    operate = Operations(root)
    operate("register_tool", entry=entry | {"protocol_meta": target})
    operate("add_grant", toolset_id="registered", kind="tool", name="alias")

    def lacks() -> int:
        found = permissions_of(read_toolset(root, "registered"), read_config(root))
        return len(Consents.of(root).lacking(found))

    assert lacks() == 0
    del schema["properties"]["x"]["default"]  # type: ignore[index]
    write(root, {"rules": [rule], "manifest": {"tools": [pay(input_schema=schema)]}})
    assert lacks() == 1


@pytest.mark.parametrize(
    "rules",
    [
        [{"pattern": "ev.pay", "when": {"args": {"x": "a*"}}}, SMALL],  # one that requires, before
        [],  # a waiver less
        [{**SMALL, "pattern": "ev.pay"}],
        [SMALL, {"pattern": "**", "require": True}],
    ],
    ids=["requires more", "waives less", "other pattern", "asks for the rest"],
)
def test_a_pull_that_waives_no_more_needs_no_trust(tmp_path: Path, rules: list[State]) -> None:
    root = project(tmp_path, [SMALL], pay(**READ_ONLY))
    trust(root)

    write(root, {"rules": rules, "manifest": {"tools": [pay(**READ_ONLY)]}})

    assert lacking(root) == []


# Any rules, and any change of them


BOOLEANS = st.booleans()
NAMES_OF_ANNOTATIONS = ("read_only", "destructive", "open_world", "idempotent")
ANNOTATIONS = st.one_of(
    st.builds(dict), *(st.fixed_dictionaries({name: BOOLEANS}) for name in NAMES_OF_ANNOTATIONS)
)
RULES = st.lists(
    st.fixed_dictionaries(
        {
            "pattern": st.sampled_from(["ev.a", "ev.*", "**", "ev.b"]),
            "require": BOOLEANS,
            "when": st.fixed_dictionaries(
                {},
                optional={
                    "args": st.fixed_dictionaries(
                        {}, optional={name: st.sampled_from([1, "a*"]) for name in "xy"}
                    ),
                    "annotations": ANNOTATIONS,
                },
            ),
        }
    ),
    max_size=4,
)
CONFIRMATION = st.fixed_dictionaries({}, optional={"requires_confirmation": BOOLEANS})
TOOLS = st.tuples(
    *(
        st.builds(
            lambda confirmation, annotations, method, default, name=name: {
                "id": name,
                "http": {"method": method, "url": "https://a.example/{x}"},
                "annotations": annotations,
                "input_schema": {
                    "type": "object",
                    "properties": {"x": {}, "y": {"default": default}},
                },
                **confirmation,
            },
            CONFIRMATION,
            ANNOTATIONS,
            st.sampled_from(["GET", "DELETE"]),
            st.sampled_from([1, "ab", "b"]),
        )
        for name in "ab"
    )
)
OVERRIDE = st.fixed_dictionaries(
    {"tool_id": st.sampled_from("ab"), "requires_confirmation": BOOLEANS}
)
MANIFESTS = st.fixed_dictionaries(
    {"tools": TOOLS},
    optional={"defaults": CONFIRMATION, "tool_overrides": st.lists(OVERRIDE, max_size=1)},
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "overrides": st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                "ab", st.fixed_dictionaries({"requires_confirmation": BOOLEANS})
            ),
        )
    },
)
SOURCES = st.sampled_from([{}, {}, {"source_type": "zip", "enabled": True}])
ARGS = [
    dict(zip("xy", values, strict=True)) for values in itertools.product((1, "ab", "b"), repeat=2)
]
ARGS += [{"x": "b"}, {"x": 1}]


@st.composite
def pulls(draw: st.DrawFn) -> list[State]:
    """A project, and another one with some parts of it."""
    parts: dict[str, st.SearchStrategy[Any]] = {
        "rules": RULES,
        "manifest": MANIFESTS,
        "own": STATES,
    }
    before: State = {name: draw(part) for name, part in parts.items()}
    after: State = {
        name: draw(part) if draw(BOOLEANS) else before[name] for name, part in parts.items()
    }
    rules = list(after["rules"])
    for change in draw(st.lists(st.sampled_from(["remove", "move", "insert"]), max_size=2)):
        place = draw(st.integers(0, len(rules)))
        if change == "insert":
            rules[place:place] = draw(RULES)[:1]
        elif place < len(rules):
            rule = rules.pop(place)
            if change == "move":
                rules.insert(draw(st.integers(0, len(rules))), rule)
    source = draw(SOURCES)
    both = before, {**after, "rules": rules}
    return [{**one, "state": {**one["own"], **source}} for one in both]


def free(root: Path) -> set[tuple[str, int]]:
    """Return the calls that need no approval with what the user trusts."""
    config = trusted_config(read_config(root), Consents.of(root))
    return {
        (tool.tool_id, number)
        for tool in read_toolset(root, "ev").tools
        for number, args in enumerate(ARGS)
        if decide_call(config.rules, [tool], args).effect == "allow"
    }


NUMBERS = itertools.count()


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pulls(), st.booleans())
def test_what_the_trusted_state_asked_for_is_not_free_after_a_pull(
    tmp_path: Path,
    pull: list[State],
    trusts_new_rules: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    before, after = pull
    root = tmp_path / str(next(NUMBERS))
    write(root, before)
    assume(read_toolset(root, "ev").sound)
    try:
        trust(root)
    except CovaltError:
        assume(False)
    assert lacking(root) == []
    allowed = free(root)

    write(root, after)
    assume(read_toolset(root, "ev").sound)
    if trusts_new_rules:  # which are about covalt.yaml, and not about what this toolset may
        Consents.of(root).trust(config_permissions(read_config(root)))

    if not lacking(root):
        assert free(root) <= allowed
