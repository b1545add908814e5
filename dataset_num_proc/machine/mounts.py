r"""Where this process's control groups are: directories, from its own up to the mount point, for each controller.

One job: to turn /proc/self/cgroup and /proc/self/mountinfo into directories. It may not read any limit.

Version 1 or 2 is chosen per controller: hosts that keep version 1 for some controllers mount version 2 beside them, and
a probe that settles on one version for the machine is blind to the limits of the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from dataset_num_proc.machine.files import Reader, shown
from dataset_num_proc.policy.facts import Unreadable

CONTROLLERS = (b"cpu", b"memory", b"pids", b"cpuset")
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_UNKNOWN_PLACE = "own group's directory is not below {}: the limits of the mount itself were taken"


class Group(NamedTuple):
    """One controller's groups of this process.

    Attributes:
        version: 1 or 2.
        directories: the process's own group first, the mount point last.
    """

    version: int
    directories: tuple[bytes, ...]


class Mount(NamedTuple):
    """One line of mountinfo, unescaped."""

    identity: bytes
    parent: bytes
    root: bytes
    point: bytes
    kind: bytes
    options: frozenset[bytes]


class Groups(NamedTuple):
    """The groups by controller, and what stood in the way of finding them."""

    by_controller: dict[bytes, Group]
    unreadable: tuple[Unreadable, ...]


def locate(reader: Reader, memberships: bytes | None) -> Groups:
    """The groups of the process whose /proc/self/cgroup reads `memberships`.

    On the live machine the answer is kept while those bytes stay the same: the mount table is long, and does not change
    under a running program, while a move to another group shows in the bytes.
    """
    return _locate_live(memberships) if reader.live else _locate(reader, memberships)


@lru_cache(maxsize=1)
def _locate_live(memberships: bytes | None) -> Groups:
    return _locate(Reader(), memberships)


def _locate(reader: Reader, memberships: bytes | None) -> Groups:
    before = len(reader.unreadable)
    path = b"/proc/self/mountinfo"
    table = reader.read(path)
    if table is None and len(reader.unreadable) == before:
        reader.note(path, "not there")
    mounts = visible(parse_mounts(table or b""))
    paths = parse_memberships(memberships or b"")
    if memberships is not None and not paths:
        reader.malformed(b"/proc/self/cgroup", memberships)
    groups = {}
    for controller in CONTROLLERS:
        version, own = _membership(controller, paths, mounts)
        kind = b"cgroup2" if version == 2 else b"cgroup"  # noqa: PLR2004 - the kernel's own numbering
        candidates = [m for m in mounts if m.kind == kind and (version == 2 or controller in m.options)]  # noqa: PLR2004
        if not candidates:
            continue
        mount, below = _nearest(candidates, own)
        if below is None:
            reader.note(f"control group of {shown(controller)}", _UNKNOWN_PLACE.format(shown(mount.point)))
        groups[controller] = Group(version, tuple(_upwards(mount.point, below or [])))
    notes = tuple(reader.unreadable[before:])
    del reader.unreadable[before:]
    return Groups(groups, notes)


def _membership(controller: bytes, paths: Mapping[bytes, bytes], mounts: list[Mount]) -> tuple[int, bytes | None]:
    """The version that a controller is used in here, and the process's own path in it."""
    if not paths:
        # A sandbox may hide the file and still show the mounts; whatever limits they have are above us.
        first = any(mount.kind == b"cgroup" and controller in mount.options for mount in mounts)
        return (1 if first else 2), None
    return (1, paths[controller]) if controller in paths else (2, paths.get(b""))


def parse_memberships(text: bytes) -> dict[bytes, bytes]:
    """Path by controller, from /proc/self/cgroup; version 2's path under the empty name.

    Only the first two colons of a line separate: container runtimes put colons into group names.
    """
    paths = {}
    for line in text.split(b"\n"):
        hierarchy, _, rest = line.partition(b":")
        controllers, colon, path = rest.partition(b":")
        if colon and path.startswith(b"/"):
            # An empty list of controllers in any hierarchy but 0 would be a named one without its name.
            names = controllers.split(b",") if controllers else [b""] * (hierarchy == b"0")
            paths.update(dict.fromkeys(names, path))
    return paths


def parse_mounts(text: bytes) -> list[Mount]:
    """The lines of /proc/self/mountinfo, in order; lines that are cut short are passed over.

    The six fields on the left are fixed, then come any number of optional ones up to a lone dash. Options of other file
    systems may hold spaces and dashes, and the source may be any word: "cgroup", "none".
    """
    mounts = []
    for line in text.split(b"\n"):
        fields = line.split(b" ")
        try:
            dash = fields.index(b"-", 6)
            kind, _source, options = fields[dash + 1], fields[dash + 2], b" ".join(fields[dash + 3 :])
        except (ValueError, IndexError):
            continue
        root, point = _unescaped(fields[3]), _unescaped(fields[4])
        mounts.append(Mount(fields[0], fields[1], root, point, kind, frozenset(options.split(b","))))
    return mounts


def _unescaped(field: bytes) -> bytes:
    """A field without the kernel's octal escapes (space, tab, newline, backslash)."""
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 255]), field) if b"\\" in field else field


def visible(mounts: list[Mount]) -> list[Mount]:
    """The control group mounts that a path still reaches: not under a later mount, there or on a directory above.

    Container runtimes mount the control groups again over the host's; both are listed, and only the last can be read.
    """
    parents = {mount.identity: mount.parent for mount in mounts}

    def hides(later: Mount, mount: Mount) -> bool:
        if later.point == mount.point:
            return True
        above = later.point != b"/" and mount.point.startswith(later.point + b"/")
        # A mount is listed after what it holds where it was moved there with its contents.
        return above and later.identity not in _ancestors(mount.identity, parents)

    # Only these few are compared with all others: a host of many containers has thousands of mounts.
    groups = [(place, mount) for place, mount in enumerate(mounts) if mount.kind in {b"cgroup", b"cgroup2"}]
    return [mount for place, mount in groups if not any(hides(later, mount) for later in mounts[place + 1 :])]


def _ancestors(identity: bytes, parents: dict[bytes, bytes]) -> set[bytes]:
    seen: set[bytes] = set()
    while (identity := parents.get(identity, b"")) and identity not in seen:
        seen.add(identity)
    return seen


def _nearest(candidates: Iterable[Mount], own: bytes | None) -> tuple[Mount, list[bytes] | None]:
    """The mount that shows the most of the way from the own group up, and the way below its point.

    The way is `None` where no mount holds the own group: a path that leaves the name space ("/../x"), or a mount of
    somewhere else.
    """
    placed = [(mount, None if own is None else _below(own, mount.root)) for mount in candidates]
    return max(placed, key=lambda item: -1 if item[1] is None else len(item[1]))


def _below(path: bytes, root: bytes) -> list[bytes] | None:
    """The components of `path` after those of `root`; `None` where it is not below. "/ab" is not below "/a"."""
    components, above = _components(path), _components(root)
    rest = components[len(above) :]
    return rest if components[: len(above)] == above and b".." not in rest else None


def _components(path: bytes) -> list[bytes]:
    return [component for component in path.split(b"/") if component]


def _upwards(point: bytes, below: list[bytes]) -> Iterator[bytes]:
    """Each directory from `below` the mount point up to the point itself."""
    top = b"" if point == b"/" else point
    for depth in range(len(below), -1, -1):
        yield b"/".join([top, *below[:depth]])
