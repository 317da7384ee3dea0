#!/bin/sh
# Make server/covalt_server/static/vendor/ again, byte for byte: `frontend/build.sh`, with Node 20 or
# newer.  Only who changes a version here needs Node; the built files are checked in.
set -eu
cd "$(dirname "$0")"
vendor=../server/covalt_server/static/vendor
mkdir -p "$vendor"

npm ci --ignore-scripts --silent
node_modules/.bin/esbuild codemirror.js --bundle --minify --format=esm --target=es2022 \
  --legal-comments=none --log-level=warning --metafile=node_modules/.made-of.json \
  --banner:js='/* CodeMirror 6 and Lezer, under the MIT licence: see LICENSES.txt */' \
  --outfile="$vendor/codemirror.js"
cp node_modules/htmx.org/dist/htmx.min.js "$vendor/htmx.min.js"
node vendored.js "$vendor"
