"""The command line: `python -m dataset_num_proc doctor | explain | demo`.

One job: arguments in, exit status out. Data goes to stdout, remarks to stderr. Exit status 0 is fine, 1 findings or a
failure, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataset_num_proc import __version__, report
from dataset_num_proc.errors import SiteError
from dataset_num_proc.machine.files import Reader
from dataset_num_proc.machine.probe import environment, take_snapshot
from dataset_num_proc.policy.decision import Decision, ReasonCode
from dataset_num_proc.policy.encoding import SITES, encode
from dataset_num_proc.policy.facts import Snapshot
from dataset_num_proc.policy.findings import findings
from dataset_num_proc.policy.request import Request, Settings, Workload
from dataset_num_proc.policy.rules import decide

PACKING_SITE = "ms_swift.packing_num_proc"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except _UsageError as error:
        parser.error(str(error))
    return status


class _UsageError(Exception):
    """What was given cannot be used."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m dataset_num_proc", description="How many workers, how to start them, and why."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    doctor = commands.add_parser("doctor", help="what this machine gives, the decision for a map, and what to mend")
    doctor.add_argument("--root", metavar="DIR", help="read a recorded machine below DIR in place of this one")
    doctor.set_defaults(run=_doctor)

    explain = commands.add_parser("explain", help="why a worker count is what it is")
    explain.add_argument("count", nargs="?", metavar="N", help="the count asked for (nothing: choose)")
    explain.add_argument("--rows", type=int, metavar="R", help="rows of the data set")
    explain.add_argument("--site", choices=sorted(SITES), metavar="SITE", help="where the answer goes: %(choices)s")
    explain.add_argument("--workload", choices=[kind.value for kind in Workload], default=Workload.MAP.value)
    source = explain.add_mutually_exclusive_group()
    source.add_argument("--snapshot", metavar="FILE", help="a machine as `doctor --json` wrote it; - is stdin")
    source.add_argument("--root", metavar="DIR", help="a recorded machine below DIR")
    explain.add_argument("--codes", action="store_true", help="list every reason code with its meaning")
    explain.set_defaults(run=_explain)

    demo = commands.add_parser("demo", help="tokenize a data set made on the spot, with the decision shown")
    demo.add_argument("--rows", type=int, default=20_000, metavar="R", help="rows to make (%(default)s)")
    demo.set_defaults(run=_demo)
    for command in (doctor, explain, demo):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _doctor(options: argparse.Namespace) -> int:
    snapshot, environ = _machine(options.root)
    settings = Settings.from_environ(environ)
    decision = decide(Request(), snapshot, settings)
    num_proc = encode(decision, "map", libraries=snapshot.libraries)
    found = findings(snapshot, settings, environ)
    if options.json:
        _print_json(
            {
                "schema": report.SCHEMA,
                "snapshot": report.to_json(snapshot),
                "settings": report.settings_to_json(settings),
                "decision": report.decision_to_json(decision, "map", num_proc),
                "findings": report.findings_to_json(found),
            }
        )
    else:
        libraries = ", ".join(
            f"{name} {version or 'not installed'}" for name, version in report.to_json(snapshot)["libraries"].items()
        )
        process = snapshot.process
        print(f"dataset_num_proc {__version__}, Python {process.python}, {process.platform}; {libraries}")
        print(report.facts_in_full(snapshot))
        print(f"\nan automatic map:\n{report.in_full(decision, 'map', num_proc)}\n\n{report.findings_in_full(found)}")
    return 1 if found else 0


def _explain(options: argparse.Namespace) -> int:
    if options.codes:
        codes = {code.value: report.meaning(code) for code in ReasonCode}
        _print_json(codes) if options.json else print("\n".join(f"{code:<17}{text}" for code, text in codes.items()))
        return 0
    snapshot, settings = _recorded(options.snapshot) if options.snapshot else _asked(options.root)
    site = options.site or (PACKING_SITE if options.workload == Workload.PACKING.value else "map")
    try:
        request = Request.of(options.count, rows=options.rows, site=site, workload=options.workload)
    except (TypeError, ValueError) as error:
        raise _UsageError(str(error)) from None
    decision = decide(request, snapshot, settings)
    for ignored in settings.ignored:
        print(f"{ignored.variable}={ignored.text!r} is ignored: accepted is {ignored.accepted}", file=sys.stderr)
    num_proc, said = _encoded(decision, site, snapshot)
    if options.json:
        document = report.decision_to_json(decision, site, num_proc if said else None)
        _print_json({"schema": report.SCHEMA, "decision": document if said else {**document, "nearest": num_proc}})
    elif said:
        print(report.in_full(decision, site, num_proc))
    else:
        print(f"{site} cannot say this; the nearest value that it takes:")
        print(report.in_full(decision, site, num_proc))
    return 0


def _encoded(decision: Decision, site: str, snapshot: Snapshot) -> tuple[int | None, bool]:
    """The site's word for the decision and `True`; where it has none, the nearest and `False`, with a remark."""
    try:
        return encode(decision, site, libraries=snapshot.libraries), True
    except SiteError as error:
        print(error, file=sys.stderr)
        return error.nearest, False


def _demo(options: argparse.Namespace) -> int:
    from dataset_num_proc.demo import run

    if options.rows < 1:
        message = f"--rows {options.rows}: accepted is 1 or more"
        raise _UsageError(message)
    return run(rows=options.rows, as_json=options.json)


def _machine(root: str | None) -> tuple[Snapshot, dict[str, str]]:
    """The snapshot and the environment of this machine, or of the one recorded below `root`."""
    if root is None or Reader(root).live:
        document = _without_names(report.to_json(take_snapshot()))
        return report.from_json(document), dict(os.environ)
    if not Path(root).is_dir():
        message = f"--root {root}: there is no such folder"
        raise _UsageError(message)
    snapshot = take_snapshot(root)
    if snapshot.cpu.host is None and snapshot.memory.available is None:
        print(f"--root {root}: no machine is recorded there (no proc, no sys)", file=sys.stderr)
    return snapshot, environment(root)


def _asked(root: str | None) -> tuple[Snapshot, Settings]:
    """The snapshot and the settings of this machine, or of the one recorded below `root`."""
    snapshot, environ = _machine(root)
    return snapshot, _settings(environ)


def _recorded(name: str) -> tuple[Snapshot, Settings]:
    """Snapshot and settings that `doctor --json` wrote to a file (- is stdin); this shell's override comes first."""
    try:
        document = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
        snapshot = report.from_json(document)
        recorded = Settings(**document.get("settings", {}))
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        message = f"--snapshot {name}: {error}"
        raise _UsageError(message) from None
    here = _settings(dict(os.environ))
    if here.override is None:
        return snapshot, recorded
    if here.override != recorded.override:
        print(f"{here.override_source} of this shell is obeyed; the recording did not have it", file=sys.stderr)
    return snapshot, here


def _settings(environ: Mapping[str, str]) -> Settings:
    """The settings of an environment, with a remark for each variable that was ignored."""
    settings = Settings.from_environ(environ)
    for ignored in settings.ignored:
        print(f"{ignored.variable}={ignored.text!r} is ignored: accepted is {ignored.accepted}", file=sys.stderr)
    return settings


def _without_names(document: Any) -> Any:  # noqa: ANN401 - JSON values are of any type
    """`document` without the names of this user and host, which stand only in paths: what is printed gets pasted."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - `Path.home()` raises where a container's user has no entry
    names = {platform.node(): "HOST", platform.node().partition(".")[0]: "HOST", home.name: "USER"}
    if isinstance(document, dict):
        return {key: _without_names(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_without_names(value) for value in document]
    if isinstance(document, str) and "/" in document:
        for name, stand_in in names.items():
            if name not in {"", "~", "root"}:
                document = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", stand_in, document)
    return document


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=1, ensure_ascii=False))


def _run() -> int:
    """`main` for a terminal: whatever it can print is printed, and a reader who has seen enough is no failure."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


if __name__ == "__main__":
    sys.exit(_run())
