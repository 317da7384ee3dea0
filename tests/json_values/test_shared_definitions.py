"""Definitions that several schemas share: those that a schema reaches, also in circles."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from covalt_git.json_values.shared_definitions import Definitions
from tests.counted_work import work_of

NAMES = [f"n{number}" for number in range(6)]


def of(names: list[str]) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


some = st.lists(st.sampled_from([*NAMES, "missing"]), max_size=3)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, some)), st.lists(some, max_size=3))
def test_a_schema_reaches_the_definitions_of_a_plain_search(
    references: dict[str, list[str]], schemas: list[list[str]]
) -> None:
    definitions = Definitions({name: of(names) for name, names in references.items()})
    for names in schemas:
        reached: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in references and name not in reached:
                reached.add(name)
                waiting += references[name]

        assert list(definitions.reached(of(names))) == sorted(reached)
        assert (definitions.digest(of(names)) is None) == (not reached)


def test_the_digests_of_a_circle_take_linear_time() -> None:
    def work(count: int) -> int:
        circle = {f"n{number}": of([f"n{(number + 1) % count}"]) for number in range(count)}
        definitions = Definitions(circle)
        return work_of(lambda: [definitions.digest(of([name])) for name in circle])

    assert work(400) < 2.3 * work(200)
