"""URLs that only take forms, which a browser opens when a page with an error is loaded again."""

import re

from tests.api_client import Api
from tests.server.visitor import Visitor


def test_a_form_url_that_is_opened_leads_to_a_page_above_it(visitor: Visitor, api: Api) -> None:
    forms = {
        rule.rule
        for rule in visitor.app.url_map.iter_rules()
        if "POST" in (rule.methods or ()) and not rule.rule.startswith(("/api", "/v1", "/git"))
    }
    assert len(forms) > 40
    for rule in forms:
        url = re.sub(r"<uuid:[^>]+>", "01a22b43-0497-7f70-b466-4dd7bacf830e", rule)
        url = url.replace("<chat_id>", "c1").replace("<toolset_id>", "text-kit")
        assert visitor.open(re.sub("<[^>]+>", "x", url)).status != 405, rule
    assert visitor.open("/toolsets/text-kit/grants/revoke").address == "/toolsets/text-kit"
    assert api.root.exists()
    assert visitor.open("/chats/c1/branches/rename").address == "/chats/c1"
