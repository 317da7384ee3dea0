"""Parts of ``covalt-git source``: names of sources, what the commands print, and the observation of a server."""
