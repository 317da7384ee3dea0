"""Scripts cannot call a tool that requires a token, whoever runs them."""

from tests.api_client import Api, answered
from tests.issuers import tokens
from tests.issuers.guarded import call, guard, make_chat


def test_a_script_calls_other_tools_and_none_that_requires_a_token(api: Api) -> None:
    guard(api.root)
    token = tokens.token()
    make_chat(api, token)
    script = "await tools.guarded.plain(text='a')\nawait tools.guarded.echo(text='hello')\n"
    args = {"script": script, "language": "python"}
    answer = answered(call(api, token, tool_id="workspace:run_script", args=args))
    assert answer["status"] == "error"
    assert "access token" in answer["error"]
    calls = [row["tool_id"] for row in api.get("list_calls", chat_id="own")["calls"]]
    assert "guarded:plain" in calls
    assert "guarded:echo" not in calls
