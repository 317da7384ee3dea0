#!/bin/sh
# What `make run` does: a sample project, a chat with some work in it, and the server that shows it.
set -eu
# Print words so that a shell reads them as the same words.
quoted() {
  for word; do
    case $word in
      *[!A-Za-z0-9_./:=-]*) printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
}
say() { printf '\n$ covalt-git%s\n' "$(quoted "$@")"; }
run() { say "$@"; covalt-git "$@"; }

if [ ! -f "$SAMPLE/covalt.yaml" ]; then run init "$SAMPLE"; fi
cd "$SAMPLE"
run validate
run tool list
if [ ! -d data/chats/weather ]; then
  run chat new --id weather --title "Seattle's weather"
  run chat upload weather toolsets/data-lab/assets/weather.csv
  run call weather data-lab:report --arg path=weather.csv
  wet='{"column": "precipitation", "op": ">", "value": 30}'
  run call weather data-lab:select_rows \
    "{\"query\": {\"path\": \"weather.csv\", \"output\": \"wet.csv\", \"filters\": [$wet]}}"
  run call weather text-kit:search --arg pattern=snow --arg path=report.md
  run chat branch weather idea
  run chat checkout weather idea
  run call weather app-builder:write_file '{"path": "index.html", "content": "<h1>Rain</h1>\n"}'
  run chat checkout weather main
fi
run chat log weather
run chat diff weather main idea

cat <<END

The server starts now. To work with the sample project in another terminal, paste these lines:

cd$(quoted "$PWD")
export PATH=$(quoted "$(dirname "$(command -v covalt-git)")" | sed 's/^ //'):"\$PATH"
covalt-git call weather data-lab:summarize --arg path=weather.csv
git -C data/chats/weather/store.git log --graph --all --stat
END
say serve
exec covalt-git serve
