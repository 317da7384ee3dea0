"""Recognizing credentials in texts, and hiding them."""

import base64
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.credentials.leaks import blotted, credentials, masked
from covalt_git.problems import codes
from covalt_git.toolsets.project_files import read_project
from tests.tables import tables
from tests.toolsets.projects import MANIFEST, REPOSITORY, SHARED, put_hello

TABLES = tables(__file__)

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def made(count: int, letters: str = LETTERS) -> str:
    """Return a text that looks random and is the same in each run; no real credential is one."""
    return "".join(random.Random(7).choices(letters, k=count))


KNOWN = {
    "github": "ghp_" + made(36),
    "github-fine-grained": "github_pat_" + made(82),
    "gitlab": "glpat-" + made(20),
    "aws": "AKIA" + made(16, string.ascii_uppercase + "234567"),
    "slack": "xoxb-" + made(12, string.digits) + "-" + made(24),
    "slack-app": "xapp-1-A" + made(10) + "-" + made(13, string.digits) + "-" + made(64, HEX),
    "slack-webhook": "hooks.slack.com/services/T" + made(8) + "/B" + made(8) + "/" + made(24),
    "discord-webhook": "discord.com/api/webhooks/" + made(18, string.digits) + "/" + made(68),
    "anthropic": "sk-ant-" + "api03-" + made(93) + "AA",
    "openai-project": "sk-proj-" + made(100),
    "openai": "sk-" + made(20) + "T3Blbk" + "FJ" + made(20),
    "openai-compatible": "sk-" + made(32, HEX),
    "google": "AIza" + made(35),
    "stripe": "sk_live_" + made(24),
    "stripe-restricted": "rk_live_" + made(16),
    "npm": "npm_" + made(36),
    "pypi": "pypi-AgE" + made(80),
    "covalt-git": "cvg_" + made(43),
    "hugging-face": "hf_" + made(34),
    "sendgrid": "SG." + made(22) + "." + made(43),
    "telegram": made(9, string.digits) + ":AA" + made(33),
    "digitalocean": "dop_v1_" + made(64, HEX),
    "databricks": "dapi" + made(32, HEX),
    "tavily": "tvly-dev-" + made(6) + "-" + made(32),
    "firecrawl": "fc-" + made(32, HEX),
    "brave": "BSA" + made(28),
    "linear-oauth": "lin_oauth_" + made(64, HEX),
    "figma": "figd_" + made(22) + "-" + made(20),
    "perplexity": "pplx-" + made(56, HEX),
    "supabase-account": "sbp_" + made(40, HEX),
    "supabase-project": "sb_secret_" + made(31),
    "atlassian": "ATATT3xFfGF0" + made(170) + "=" + made(8, HEX.upper()),
    "bitbucket": "ATBB" + made(32),
    "groq": "gsk_" + made(52),
    "jwt": "eyJ" + made(30) + ".eyJ" + made(40) + "." + made(43),
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + made(64),
    "private-key-escaped": "-----BEGIN " + "PRIVATE KEY-----\\n" + made(64),
    "private-key-of-lines": "-----BEGIN "
    "PRIVATE KEY-----\n"
    f"{made(64)}\n{made(31)}==\n-----END "
    "PRIVATE KEY-----",
}
GUESSED = {
    "yaml": f"api_key: {made(24)}",
    "yaml-in-quotes": f'password: "{made(32)}"',
    "bearer": f"Authorization: Bearer {made(30)}",
    "own scheme": f"Authorization: DeepL-Auth-Key {made(32, HEX)}",
    "scheme in an own header": f'{{"X-Api-Key": "Key {made(32)}"}}',
    "basic": f"headers = {{'Authorization': 'Basic {made(40)}'}}",
    "python": f'CLIENT_SECRET = "{made(32)}"',
    "environ": f'os.environ.get("ACCESS_TOKEN", "{made(32)}")',
    "flag": f"[search, --api-key={made(24)}]",
    "json": f'{{"private_key": "{made(40, HEX)}"}}',
    "address with a colon in the password": f"redis://u:{made(6)}:{made(8)}@h/0",
    "address with a star in the password": f"postgres://app:{made(6)}*{made(8)}@db/x",
    "address": f"postgres://reader:{made(12)}@db.example.com/shop",
}


def test_a_private_key_is_found_up_to_its_last_line() -> None:
    key = KNOWN["private-key-of-lines"]
    (found,) = credentials(f"key: |\n{key}\nnext: {made(12)}")

    assert found.value == key


def test_a_login_of_http_basic_is_found_after_any_name() -> None:
    login = base64.b64encode(f"ann:{made(9)}".encode()).decode()
    example = base64.b64encode(b"Aladdin:open sesame").decode()

    (found,) = credentials(f"X-Forward: Basic {login}")
    assert (found.value, found.certain) == (login, True)
    assert credentials(f"X-Forward: Basic {example}") == []


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in KNOWN.items()])
def test_a_token_of_a_known_format_is_certain(value: str) -> None:
    (found,) = credentials(f'x = "{value}"\n')

    assert found.certain
    assert found.value.startswith(value[:10])
    assert found.place == 5 or not value[0].isalnum() or "." in value[:12]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in GUESSED.items()])
def test_a_random_value_after_the_name_of_a_secret_is_a_guess(text: str) -> None:
    (found,) = credentials(text)

    assert not found.certain
    assert text[found.place :].startswith(found.value)
    assert found.value not in found.kind


@pytest.mark.parametrize(
    "text",
    [
        *TABLES["no_credentials"],
        "ghp_" + "x" * 36,
        "AKIAIOSFODNN7" + "EXAMPLE",
        "sk-proj-" + "0" * 48,
    ],
)
def test_placeholders_references_and_words_are_no_credentials(text: str) -> None:
    assert list(credentials(text)) == []


def test_this_repository_has_no_credentials() -> None:
    roots = [REPOSITORY / name for name in ("toolsets", "docs", "covalt_git", "server")]
    roots += [SHARED / "data" / "manifests"] if SHARED.is_dir() else []
    every = (file for root in roots for file in sorted(root.rglob("*")) if file.is_file())
    files = [file for file in every if file.suffix != ".pyc"]
    texts = {file: file.read_bytes().decode("utf-8", "replace") for file in files}

    assert len(texts) > 100
    found = [(file.name, one.certain) for file, text in texts.items() for one in credentials(text)]
    assert set(found) <= {("CG212.md", False), ("problems.md", False)}, "the bad example of CG212"


@pytest.mark.parametrize("kind", ["github", "jwt", "private-key-escaped"])
def test_no_problem_repeats_a_credential_whatever_else_is_wrong_there(
    tmp_path: Path, kind: str
) -> None:
    value = KNOWN[kind]
    more = f"    enabled: '{value}'\n    renderer: '{value}'\n    '{value}': 1\n"
    put_hello(tmp_path, MANIFEST + more)

    found = read_project(tmp_path).problems

    assert {codes.CREDENTIAL, codes.BAD_VALUE, codes.UNKNOWN_KEY} <= {one.code for one in found}
    for problem in found:
        assert value[:9] not in f"{problem}"


def test_a_file_without_credentials_is_searched_again_when_it_has_changed(tmp_path: Path) -> None:
    put_hello(tmp_path, MANIFEST)
    file = tmp_path / "toolsets" / "hello" / "notes.md"
    for text, expected in (("none", []), (KNOWN["github"], [codes.CREDENTIAL]), ("none", [])) * 2:
        file.write_text(text)

        assert [problem.code for problem in read_project(tmp_path).problems] == expected


def test_a_token_is_found_in_a_file_of_data(tmp_path: Path) -> None:
    # More than a file that is read as data has at least, 4 MiB.
    rows = "".join(f"{number},word,https://example.com\n" for number in range(140_000))
    put_hello(tmp_path, MANIFEST)
    data = tmp_path / "toolsets" / "hello" / "rows.csv"
    data.write_text(f"{rows}1,{KNOWN['github']},x\n")

    (problem,) = read_project(tmp_path).problems

    assert (problem.code, problem.line) == (codes.CREDENTIAL, 140_001)


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.sampled_from(sorted(KNOWN.values())),
    st.integers(10, 200),
)
def test_a_mask_hides_a_credential_that_is_cut_off(
    before: str, after: str, value: str, shown: int
) -> None:
    text = f"{before}{value}{after}"[: len(before) + shown]

    assert value[:9] not in masked(text, [value])


@given(st.text(alphabet="eyJ.-_=:/@'\" \nabAB019keytoken", max_size=400))
def test_a_credential_is_at_its_place(text: str) -> None:
    for one in credentials(text):
        assert text[one.place : one.place + len(one.value)] == one.value


@pytest.mark.parametrize("value", KNOWN.values(), ids=KNOWN)
def test_blotting_hides_credentials_and_keeps_every_column(value: str) -> None:
    text = f"token: {value} # é\n  next: {value}\nlast: é\n"
    hidden = blotted(text)

    assert credentials(text)
    assert all(one.value not in hidden for one in credentials(text))
    assert len(hidden) == len(text)
    assert [len(line) for line in hidden.splitlines()] == [len(line) for line in text.splitlines()]
    assert hidden.endswith("last: é\n")
