"""User that a source of numbers belongs to, and whether it counts as root's."""

from __future__ import annotations

from nftop.model.struct import dataclass

# Reason codes, as JSON has them.
ROOT = "root"  # root listens
OWN_USER = "own-user"  # nftop's own user listens
UNPRIVILEGED = "unprivileged"  # another user listens
SOCKET_FILE = "socket-file"  # root listens, but another user owns the file of the socket
FOLDER = "folder"  # root listens, but another user can replace the file of the socket
UNKNOWN = "unknown"  # the kernel does not say


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of a source.

    Attributes:
        uid: in nftop's user namespace; -1 if unknown.
        user: its name, else `uid 1234`.
        privileged: root or nftop's own user; an unprivileged source never replaces a privileged
            one.
        reason: one of the codes above.
    """

    uid: int
    user: str
    privileged: bool
    reason: str


def suffix(owner: Owner | None) -> str:
    """`, user alice` for text about an unprivileged owner; else ""."""
    return "" if owner is None or owner.privileged else f", user {owner.user}"


def rank(owner: Owner | None) -> int:
    """Order of precedence, lowest first: privileged owners, then all others."""
    return 0 if owner is None or owner.privileged else 1


def owned_name(name: str, owner: Owner | None) -> str:
    """Name of a network function: with the user's name in front if it is unprivileged."""
    return name if owner is None or owner.privileged else f"{owner.user}:{name}"
