"""Whether other users of the machine can write a file: what they write is their decision, not the user's.

The rule is that of ``StrictModes`` of sshd: the owner is the user or root, and no other user can write.  A group counts
as the user's own if it has no other member, because Debian and others give each user such a group, and a umask of 002.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ACL = "system.posix_acl_access"


def only_user_writes(path: Path | str) -> bool:
    """Return whether only this user and root can write a file or folder, which may be a link.

    Raises:
        OSError: if it does not exist.
    """
    status = os.lstat(path)
    if status.st_uid not in {os.geteuid(), 0}:
        return False
    if stat.S_ISLNK(status.st_mode):  # its mode has no meaning
        return True
    if status.st_mode & stat.S_IWOTH:
        return False
    is_shared = status.st_mode & stat.S_IWGRP
    # With an access list, the bits of the group are the most that any of its entries permits.
    return not is_shared or (_is_of_user(status.st_gid) and not _has_access_list(path))


@cache
def _is_of_user(group_id: int) -> bool:
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(group_id)
    except KeyError:
        return False
    if (group_id, group.gr_name) != (user.pw_gid, user.pw_name):
        return False
    # A user whose primary group it is is not among the members that a group lists.
    others = [
        account.pw_name
        for account in pwd.getpwall()
        if account.pw_gid == group_id and account.pw_uid != user.pw_uid
    ]
    return not others and set(group.gr_mem) <= {user.pw_name}


def _has_access_list(path: Path | str) -> bool:
    try:
        return _ACL in os.listxattr(path, follow_symlinks=False)
    except (AttributeError, OSError):  # macOS, or a file system without them
        return False
