#!/bin/sh
# Run git http-backend, after creating the repository of a push.  The nodes push to a repository for each chat.
set -eu

name=${PATH_INFO#/}
name=${name%%/*}
case "$name" in
  .* | *[!a-z0-9._-]*) ;; # no name of a repository: http-backend refuses it
  *.git)
    place="$GIT_PROJECT_ROOT/$name"
    if [ "${QUERY_STRING:-}" = service=git-receive-pack ] && [ ! -e "$place" ]; then
      new="$GIT_PROJECT_ROOT/.new-$$"
      git init --quiet --bare --initial-branch=main "$new"
      # All at once, and only the first of two requests.
      mv -T "$new" "$place" || rm -rf "$new"
    fi
    ;;
esac
exec "$(git --exec-path)/git-http-backend"
