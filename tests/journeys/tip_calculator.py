"""A chat in which an agent builds a web app, for a journey and for the pictures of the README."""

from dataclasses import dataclass

from tests.operations_client import Operations

CHAT = "tips"

HTML = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tip calculator</title>
<link rel="stylesheet" href="style.css">
<main>
  <h1>Tip calculator</h1>
  <label>Bill <input id="bill" inputmode="decimal" value="48.50"></label>
  <label>Tip <output id="percent"></output>
    <input id="tip" type="range" min="0" max="30" step="5"></label>
  <label>People <input id="people" type="number" min="1" value="2"></label>
  <p>Each pays <strong id="each"></strong></p>
</main>
<script type="module" src="tip.js"></script>
</html>
"""

CSS = """\
body { margin: 0; padding: 1.5rem; font: 1.1rem/1.5 system-ui, sans-serif; background: #f4efe6; color: #2b2118; }
main { max-width: 22rem; margin: auto; padding: 1.5rem; border-radius: 1rem; background: #fff; }
h1 { margin: 0 0 1rem; font-size: 1.6rem; }
label { display: block; margin-bottom: 1rem; }
input { display: block; box-sizing: border-box; width: 100%; font: inherit; accent-color: #b4552d; }
p { margin: 0; }
strong { display: block; font-size: 2.6rem; line-height: 1.2; color: #b4552d; }
"""

SCRIPT = """\
const field = (id) => document.getElementById(id);
field("tip").value = 10;

function show() {
  const each = (field("bill").value * (1 + field("tip").value / 100)) / field("people").value;
  field("percent").textContent = `${field("tip").value} %`;
  field("each").textContent = each.toFixed(2);
}

addEventListener("input", show);
show();
"""

NIGHT = """\
body { margin: 0; padding: 1.5rem; font: 1.1rem/1.5 Georgia, serif; background: #0f1b2d; color: #dbe6f4; }
main { max-width: 22rem; margin: auto; }
h1 { margin: 0 0 1rem; font-size: 1.6rem; color: #f2c14e; }
label { display: block; margin-bottom: 1rem; }
input { display: block; box-sizing: border-box; width: 100%; font: inherit; accent-color: #f2c14e; color: #dbe6f4; background: #1d2f4a; border: 0; padding: .3rem; }
p { margin: 0; }
strong { display: block; font-size: 2.6rem; line-height: 1.2; color: #f2c14e; }
"""


@dataclass(frozen=True)
class TipCalculator:
    """What the user writes and the agent calls, in another process than the server."""

    operate: Operations

    def ask(self, text: str) -> str:
        """Add a message of the user, and return its id."""
        added = self.operate("add_message", chat_id=CHAT, text=text)
        return str(added["message_id"])

    def call(self, message: str, tool: str, **args: str) -> None:
        """Make a call of the agent for a message."""
        answer = self.operate(
            "call_tool",
            chat_id=CHAT,
            tool_id=f"app-builder:{tool}",
            args=args,
            message_id=message,
        )
        assert answer["status"] == "success", answer

    def answer(self, text: str) -> None:
        """Add a message of the agent."""
        self.operate("add_message", chat_id=CHAT, role="assistant", text=text)

    def write(self) -> None:
        """Write the app with three calls, the page last: a preview that follows shows no page without its parts."""
        message = self.ask("Make a tip calculator that works on a phone.")
        for path, content in (("style.css", CSS), ("tip.js", SCRIPT), ("index.html", HTML)):
            self.call(message, "write_file", path=path, content=content)
        self.answer("It splits the bill too. The tip starts at 10 %.")

    def edit(self) -> None:
        """Change one line of the app."""
        message = self.ask("Start with 20 %.")
        old, new = 'field("tip").value = 10;', 'field("tip").value = 20;'
        self.call(message, "edit_file", path="tip.js", old=old, new=new)

    def restyle(self) -> None:
        """Write a second design, on the branch that is active."""
        message = self.ask("Show me a design for the evening.")
        self.call(message, "write_file", path="style.css", content=NIGHT)
