"""Programs run in a control group, to see limits that a real kernel keeps.

One job: the programs that the tests of both versions run inside a limited group, as text. It may not make any group.
"""

from __future__ import annotations

MIB = 1 << 20
LIMIT = 512 * MIB
CACHE = 300 * MIB
FILE = 320 * MIB
"""More than the cache that a test needs: the kernel may have taken some pages back by the time they are counted."""
LEAST_HEADROOM = 450 * MIB

CACHE_A_FILE = """
import sys
with open(sys.argv[1], "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
"""
"""Reads the file of its argument, which charges the page cache of it to the group."""

FACTS = """
import contextlib, io, json
from dataset_num_proc.__main__ import main
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    main(["doctor", "--json"])
snapshot = json.loads(printed.getvalue())["snapshot"]
print("FACTS", json.dumps([snapshot["cpu"]["quota"], snapshot["memory"]["limit"], snapshot["memory"]["headroom"]]))
"""
"""Prints quota, limit and headroom."""

TAKE = """
import json
from dataset_num_proc.machine.probe import take_snapshot
size = int(take_snapshot().memory.headroom * 0.9)
block = bytearray(b"x") * size
print("TAKEN", len(block) == size and block[-1] == ord("x"))
"""
"""Takes 90 % of the headroom, and touches every page of it."""
