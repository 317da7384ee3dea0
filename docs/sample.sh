#!/bin/sh
# What `make run` does: a sample project, a chat with some work in it, and the server that shows it.
set -eu
say() { printf '\n$ covalt-git %s\n' "$*"; }
run() { say "$@"; covalt-git "$@"; }

if [ ! -f "$SAMPLE/covalt.yaml" ]; then run init "$SAMPLE"; fi
cd "$SAMPLE"
run validate
run tool list
if [ ! -d data/chats/weather ]; then
  run chat new --id weather --title "Seattle's weather"
  run chat upload weather toolsets/data-lab/assets/weather.csv
  run call weather data-lab:report --arg path=weather.csv
  run call weather data-lab:select_rows '{"query": {"path": "weather.csv", "output": "wet.csv",
    "filters": [{"column": "precipitation", "op": ">", "value": 30}]}}'
  run call weather text-kit:search --arg pattern=snow --arg path=report.md
  run chat branch weather idea
  run chat checkout weather idea
  run call weather app-builder:write_file '{"path": "index.html", "content": "<h1>Rain</h1>\n"}'
  run chat checkout weather main
fi
run chat log weather
run chat diff weather main idea

cat <<END

The sample project is in $SAMPLE; its chat "weather" is a git store:
  cd $SAMPLE && git -C data/chats/weather/store.git log --graph --all --stat
Beside the pages there is the command line:
  PATH="$(dirname "$(command -v covalt-git)"):\$PATH"
  covalt-git call weather data-lab:summarize --arg path=weather.csv --open
END
say serve
exec covalt-git serve
