"""Recorded machines: what a probe reads on them, and what must be found.

One job: to load the files under `trees` and to write one out below a directory. What the keys of a file mean, and which
machines cannot be written as files, is in trees/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TREES = Path(__file__).parent / "trees"


@dataclass(frozen=True, slots=True)
class RecordedMachine:
    """One machine.

    Attributes:
        name: name of its file.
        what: what is special about it.
        environ: environment of the process.
        files: text by path below the root.
        expect: what must be found, by name.
        forbidden: paths that are there and cannot be read.
        url: where it was reported.
    """

    name: str
    what: str
    environ: Mapping[str, str]
    files: Mapping[str, str]
    expect: Mapping[str, Any]
    forbidden: tuple[str, ...] = field(default=())
    url: str | None = None

    def write(self, root: Path) -> Path:
        """Writes the machine out below `root`, which is returned.

        A path that cannot be read becomes a directory: the superuser, as whom tests may run, can read any file.
        """
        for path in self.forbidden:
            (root / path).mkdir(parents=True)
        for path, text in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        (root / "environ").write_text("".join(f"{name}={value}\n" for name, value in self.environ.items()))
        return root


def recorded_machine(name: str) -> RecordedMachine:
    """The machine in the file of that name."""
    return RecordedMachine(**json.loads((TREES / f"{name}.json").read_text(encoding="utf-8")))


def recorded_machines() -> list[RecordedMachine]:
    """All of them, by name."""
    return [recorded_machine(path.stem) for path in sorted(TREES.glob("*.json"))]
