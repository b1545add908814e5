"""Writes the tables of README.md that say what the code says, from the code.

One job: `python scripts/readme_tables.py` rewrites what stands between the markers; `--check` exits 1 where that would
change anything. The rules come from `ReasonCode`, the dialects from `SITES`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.encoding import ALWAYS, EVERY, SITES, Site
from dataset_num_proc.policy.rules import CEILINGS, VETOES

README = Path(__file__).parent.parent / "README.md"


def rules_table() -> str:
    """Every rule in its order, with its meaning."""
    kinds = {name.__name__: "veto" for name in VETOES} | {name.__name__: "ceiling" for name in CEILINGS}
    rows = [
        (f"`{code.value}`", kinds.get(code.name.lower(), "override"), code.__doc__ or "")
        for code in ReasonCode
        if code is not ReasonCode.START_METHOD
    ]
    return _table(("rule", "kind", "meaning"), rows)


def sites_table() -> str:
    """Every call site with what its reader makes of a value; sites that are alike share a row."""
    header = ("`site=`", "“in this process”", "`None` means", "`1` means", "workers from")
    alike: dict[tuple[str, ...], list[str]] = {}
    for site in SITES.values():
        alike.setdefault((_word(site), site.none_means, site.one_means, _origin(site)), []).append(f"`{site.name}`")
    return _table(header, [(", ".join(names), *meaning) for meaning, names in alike.items()])


def _word(site: Site) -> str:
    if site.sayable_before == EVERY:
        return "cannot be said"
    if site.sayable_before is not None:
        return f"`{site.in_process}`; cannot be said from datasets {_release(site.sayable_before)} on"
    return f"`{site.in_process}`"


def _origin(site: Site) -> str:
    notes = [f"`{site.module}`" + (f" and `{site.also_module}`" if site.also_module else "")]
    if site.spawns_since is not None:
        notes.append(f"by spawn from datasets {_release(site.spawns_since)} on")
    if site.count_in_cache_key == ALWAYS:
        notes.append("the count is in the cache key")
    elif site.count_in_cache_key is not None:
        notes.append(f"the count is in the cache key before datasets {_release(site.count_in_cache_key)}")
    return ", ".join(notes)


def _release(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = tuple(header)
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def rewritten(text: str) -> str:
    """`text` with each table between its markers made anew."""
    for name, table in (("rules", rules_table()), ("sites", sites_table())):
        start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, after = text.partition(start)[0], text.partition(end)[2]
        text = before + start + table + end + after
    return text


def main() -> int:
    """Rewrite, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where the tables are stale")
    options = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    new = rewritten(old)
    if options.check:
        print("README tables are current" if new == old else "README tables are stale: run scripts/readme_tables.py")
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
