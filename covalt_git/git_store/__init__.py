"""Git objects, packs and refs of bare stores: the only package that imports dulwich.

It reads blobs, trees, commits and refs, and writes them durably; their meaning in a chat is defined in
``workspaces``.  Dulwich makes and applies deltas, moves refs, and parses trees, configs and the protocol's lines.  This
package reads and writes objects and packs, and decides in which order files are written and fsynced.
"""
