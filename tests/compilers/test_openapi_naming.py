"""Names of operations: by path and method, by operationId where they clash, and stable when operations are added."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.compilers.openapi.naming import NamedOperation, names_of
from covalt_git.names import is_tool_name
from tests.compilers.test_openapi_goldens import compiled
from tests.examples import examples


def operation(text: str) -> NamedOperation:
    method, path, *ids = text.split(" ")
    operation_id = ids[0] if ids else ""
    return NamedOperation(method, path, operation_id, operation_id or text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GET /pets", "pets.list"),
        ("GET /pets/{id}", "pets.get"),
        ("GET /v1/pets/{id}.json", "pets.get"),
        ("POST /api/v2beta1/pets", "api.pets.create"),
        ("PUT /2010-04-01/pets/{id}", "pets.update"),
        ("PATCH /pets/{id}/homeAddress", "pets.home_address.patch"),
        ("DELETE /pets/{id}/", "pets.delete"),
        ("POST /chat.postMessage", "chat.post_message.create"),
        ("HEAD /pets#fragment", "pets.head"),
        ("OPTIONS /", "root.options"),
        ("GET /OAuth2Tokens", "o_auth2_tokens.list"),
    ],
)
def test_a_name_is_the_resource_and_the_action(text: str, name: str) -> None:
    assert names_of([operation(text)], {}) == [name]


def test_operations_that_clash_take_the_words_of_their_ids_then_the_method_then_a_hash() -> None:
    texts = [
        "GET /pets listPets",
        "GET /v1/pets listOldPets",
        "PUT /dogs/{id} save",
        "PUT /v1/dogs/{id} save",
        "GET /cats",
        "GET /v1/cats",
    ]
    hashes = {
        text: hashlib.sha256(" ".join(text.split(" ")[:2]).encode()).hexdigest()[:6]
        for text in texts
    }

    assert names_of([operation(text) for text in texts], {}) == [
        "list_pets",
        "list_old_pets",
        f"save_put_{hashes[texts[2]]}",
        f"save_put_{hashes[texts[3]]}",
        f"cats.list_get_{hashes[texts[4]]}",
        f"cats.list_get_{hashes[texts[5]]}",
    ]


def test_a_newcomer_gives_way_to_a_held_name() -> None:
    first = operation("GET /v1/pets listPets")
    newcomer = operation("GET /pets listAllPets")
    held = dict(zip([first.upstream], names_of([first], {}), strict=True))

    assert names_of([newcomer, first], held) == ["list_all_pets", "pets.list"]


PATHS = st.lists(st.sampled_from(["a", "b", "{x}", "v1", "aB", "é", "%%", "w" * 70]), max_size=4)
OPERATIONS = st.lists(
    st.builds(
        lambda method, parts, name: operation(f"{method} /{'/'.join(parts)} {name}"),
        st.sampled_from(["GET", "POST", "DELETE"]),
        PATHS,
        st.sampled_from(["listA", "b", "é", "x" * 80, "a.list"]),
    ),
    unique_by=lambda entry: (entry.method, entry.path),
    max_size=8,
)


@settings(max_examples=examples(500), deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False))
def test_names_are_valid_unique_and_independent_of_the_order(
    operations: list[NamedOperation], random: Any
) -> None:
    operations = [entry._replace(upstream=f"{entry.method} {entry.path}") for entry in operations]
    names = names_of(operations, {})
    shuffled = list(operations)
    random.shuffle(shuffled)

    assert len(set(names)) == len(names)
    assert all(map(is_tool_name, names))
    assert dict(zip(shuffled, names_of(shuffled, {}), strict=True)) == dict(
        zip(operations, names, strict=True)
    )
    held = {entry.upstream: name for entry, name in zip(operations, names, strict=True)}
    newcomer = operation("GET /a/b/new listNew")
    assert names_of([newcomer, *operations], held)[1:] == names


def test_include_and_exclude_select_by_name_and_names_stay() -> None:
    everything = compiled("shelter-3.0")

    chosen = compiled("shelter-3.0", include=["animals.*", "internal.rebuild.create", "no.such"])
    others = compiled("shelter-3.0", exclude=["shelter.animals.**"])

    assert [name for name in chosen.tools if name.startswith("animals")] == [
        name for name in everything.tools if name.count(".") == 1 and name.startswith("animals")
    ]
    assert "internal.rebuild.create" in chosen.tools
    assert "internal.rebuild.create" not in compiled("shelter-3.0", include=["**"]).tools
    assert list(others.tools) == ["stages.get"]
    assert "'no.such' matches no operation" in " ".join(map(str, chosen.problems))


def test_base_url_replaces_the_servers_and_relative_ones_begin_at_the_document() -> None:
    tool = compiled("shelter-3.0", base_url="http://localhost:8080/x/").tools["animals.list"]

    assert tool.request["url"] == "http://localhost:8080/x/v1/animals"
    assert tool.hosts == ("http://localhost:8080",)
    assert "stage" not in tool.input_schema["properties"]
