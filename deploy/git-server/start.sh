#!/bin/sh
# Start fcgiwrap and nginx; the container ends when nginx does.
set -eu
mkdir -p /srv/chats
# Of pushes that ended with the last container.  Git refuses each push to a ref with such a file.
find /srv/chats -path '*.git/*' -name '*.lock' -delete
rm -f /run/fcgi.sock
fcgiwrap -c 8 -s unix:/run/fcgi.sock &
while [ ! -S /run/fcgi.sock ]; do sleep 0.1; done
# The workers of nginx run as www-data.
chown www-data /run/fcgi.sock
exec nginx -g 'daemon off;'
