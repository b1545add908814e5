"""Bugs that another worker-count policy met and fixed, each as a regression test of this one, under the same numbers.

Numbered as in the history of the policy of https://github.com/unslothai/unsloth/pull/7831 and later. Left out, since
there is no such code here:

- 41: a copy of the policy kept for installations without the package; there is one copy.
- 43: generated source that imports its generator; nothing is generated.
- 45, 46: replacing another project's source by its text; nothing is replaced.
- 49 is here as far as it is a count; in which order ranks map is the caller's.
- 54: a test that never came near the edge it was for; the edges are in `tests/policy`.

55 (pools counted by a name that a later release removed) is how `tests/sites/test_dialects.py` counts: at the class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataset_num_proc as dnp
from dataset_num_proc import policy
from dataset_num_proc.machine.probe import take_snapshot
from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.encoding import SITES, decode, encode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.policy.request import Request, Settings
from dataset_num_proc.report import in_one_line
from tests import recorded, scripts
from tests.values import GIB, MIB, answer, machine, starts

MAP_SITES = ("map", "filter", "batch", "flatten_indices", "save_to_disk", "push_to_hub", "trl.config", "unsloth.config")
POOR = {"available": GIB}
UNGUARDED = {"main": MainModule.UNGUARDED, "main_file": "train.py", "main_line": 3}


# --- policy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("maps", "others", "workers"), [("spawn", "fork", 0), ("fork", "spawn", 8)])
def test_bug_01_the_start_method_is_that_of_the_module_that_maps(maps: str, others: str, workers: int) -> None:
    """A map starts its workers from `multiprocess`, so the other module's method changes nothing, either way round."""
    assert answer(None, machine(multiprocess=maps, multiprocessing=others, **UNGUARDED)).workers == workers


@pytest.mark.parametrize("site", MAP_SITES)
@pytest.mark.parametrize("asked", [None, 0, 1, 2, 3, 16])
def test_bug_02_one_is_never_the_word_for_in_process_at_a_map(site: str, asked: int | None) -> None:
    """Whatever is asked for and however little there is, a map site is handed `None` or two and more."""
    for gib in range(1, 12):
        snapshot = machine(available=gib * GIB, host=gib, affinity=gib, main=MainModule.FILE)
        count = encode(answer(asked, snapshot, site=site), site)
        assert count is None or count >= 2


@pytest.mark.parametrize("cpus", [16, 64, 96, 192, 4096])
def test_bug_03_a_free_choice_is_capped(cpus: int) -> None:
    """However many processors there are, nobody gets more than 8 workers without asking."""
    assert answer(None, machine(host=cpus, affinity=cpus, available=cpus * 16 * GIB)).workers == 8


def test_bug_04_a_count_that_was_asked_for_is_bounded_by_memory() -> None:
    """48 asked for with 16 GiB free are 8, and the reason says that it was memory."""
    decision = answer(48, machine(host=192, affinity=192, available=16 * GIB))
    assert (decision.workers, decision.binding.code) == (8, ReasonCode.MEMORY)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_bug_05_a_count_that_was_asked_for_does_not_pass_a_veto(method: str) -> None:
    """Where a fresh interpreter could not import the script, 48 are refused, aloud; where it can, 48 are 48."""
    refused = answer(48, machine(method, **UNGUARDED))
    assert (refused.workers, refused.asked, refused.reduced) == (0, 48, True)
    line = in_one_line(refused, "map")
    assert "48 asked" in line
    assert "train.py" in line
    assert answer(48, machine(method, main=MainModule.FILE)).workers == 48


def test_bug_06_a_free_choice_with_little_memory_is_none() -> None:
    """Without memory for two workers a map is handed `None`, not 1."""
    assert encode(answer(None, machine(**POOR))) is None


@pytest.mark.parametrize("site", sorted(name for name, row in SITES.items() if row.is_config))
def test_bug_07_in_process_by_override_is_said_in_the_readers_words(site: str) -> None:
    """An override of "in this process" is recorded in a word that its reader does not take for a free choice."""
    if not SITES[site].says_in_process(machine().libraries):
        with pytest.raises(dnp.SiteError):
            encode(answer(16, settings=Settings(override=0), site=site), site)
        return
    word = encode(answer(16, settings=Settings(override=0), site=site), site)
    assert word == (1 if SITES[site].none_means == "choose" else None)
    assert decode(word, site).workers == 0


@pytest.mark.parametrize("asked", [None, 0, 1, 4, 16])
def test_bug_08_one_does_not_reach_readers_that_pool_at_one(asked: int | None) -> None:
    """Where workers cannot be used, a reader that hands its value on to `map` gets `None`, never 1.

    There the reader that decodes 1 still gets 1: the right word hangs on the reader, not on the start method.
    """
    spawning = machine("spawn", **UNGUARDED)
    for site in ("unsloth.config", "trl.config"):
        assert encode(answer(asked, spawning, site=site), site) is None
    assert encode(answer(asked, spawning, site="unsloth.sft_config"), "unsloth.sft_config") == 1


@pytest.mark.parametrize("site", SITES)
def test_bug_09_each_reader_has_its_own_word(site: str) -> None:
    """The word for "in this process" is one that the reader takes for that: never `None` to one that would choose."""
    row = SITES[site]
    assert row.none_means != "choose" or row.in_process is not None
    if row.says_in_process(machine().libraries):
        assert decode(row.in_process, site).workers == 0


def test_bug_10_macos_is_refused_for_itself() -> None:
    """The refusal on macOS, where `multiprocess` really forks, is a rule of its own, and does not hit spawn."""
    forked = answer(4, machine("fork", platform="darwin", main=MainModule.FILE))
    assert (forked.workers, forked.binding.code) == (0, ReasonCode.MACOS_FORK)
    assert answer(4, machine("spawn", platform="darwin", main=MainModule.FILE)).workers == 4


FAKE_MULTIPROCESS = """
import json, sys, types
default = types.SimpleNamespace(_default_context=types.SimpleNamespace(_name="fork"))
chain = types.SimpleNamespace(_default_context=default)
module = types.ModuleType("multiprocess")
module.context, module.get_start_method = chain, lambda allow_none=False: None
module.get_all_start_methods = lambda: ["spawn"]
sys.modules["multiprocess"] = module
from dataset_num_proc.machine.probe import take_snapshot
facts = take_snapshot().start_methods.multiprocess
print(json.dumps([facts.method, facts.pinned, facts.offered]))
"""


def test_bug_11_a_method_that_is_not_offered_is_not_believed() -> None:
    """Where a private default says fork and only spawn is offered, as seen on Windows, it is spawn."""
    assert scripts.run("-c", FAKE_MULTIPROCESS).json() == ["spawn", False, ["spawn"]]


ASK_THEN_SET = """
import json, multiprocess, multiprocessing
import dataset_num_proc as dnp
snapshot = dnp.take_snapshot()
dnp.num_proc(), dnp.num_proc(4), dnp.plan(4, site="to_json"), dnp.mp_context()
before = [multiprocess.get_start_method(allow_none=True), multiprocessing.get_start_method(allow_none=True)]
multiprocess.set_start_method("spawn")
multiprocessing.set_start_method("forkserver")
snapshot = dnp.take_snapshot().start_methods
print(json.dumps([before, snapshot.multiprocess.method, snapshot.multiprocessing.method, snapshot.multiprocess.pinned]))
"""


def test_bug_12_asking_does_not_fix_the_start_method() -> None:
    """After every question that can be asked, both modules' methods are still free to be set, and then read as set."""
    assert scripts.run("-c", ASK_THEN_SET).json() == [[None, None], "spawn", "forkserver", True]


@pytest.mark.parametrize(("gib", "expected"), [(2, None), (8, 4)])
def test_bug_13_a_containers_memory_counts(tmp_path: Path, gib: int, expected: int | None) -> None:
    """2 GiB of a 512 GiB host are no workers, 8 GiB are four."""
    root = recorded.write(tmp_path, recorded.v2("/", at_0={"memory.max": gib * GIB, "memory.current": 0}))
    assert dnp.num_proc(snapshot=take_snapshot(root), settings=Settings()) == expected


@pytest.mark.parametrize(
    ("files", "allowed", "usable", "expected"),
    [
        ({}, "0-3", 4, 2),
        (recorded.v2("/job", at_1={"cpu.max": "50000 100000"}), None, 1, None),
        (recorded.v2("/job", at_1={"cpu.max": "250000 100000"}), None, 2, 2),
        ({}, "7", 1, None),
    ],
)
def test_bug_14_the_processors_are_the_processes_own(
    tmp_path: Path, files: dict[str, str | int], allowed: str | None, usable: int, expected: int | None
) -> None:
    """A mask of 4 processors of 128, a quota of half a core, and a single processor are what they are."""
    snapshot = take_snapshot(recorded.write(tmp_path, files, cpus=128, allowed=allowed))
    (cpus,) = [reason for reason in dnp.plan(snapshot=snapshot).reasons if reason.code is ReasonCode.CPUS]
    assert cpus.seen["usable"] == usable
    assert dnp.num_proc(snapshot=snapshot, settings=Settings()) == expected


def test_bug_15_each_limit_has_its_own_usage(tmp_path: Path) -> None:
    """What the root's groups use together is not taken off the limit of one of them."""
    root = {"memory.current": 300 * GIB}
    unit = {"memory.max": 16 * GIB, "memory.current": GIB}
    tree = recorded.write(tmp_path, recorded.v2("/job.service", at_0=root, at_1=unit))
    assert take_snapshot(tree).memory.headroom == 15 * GIB


def test_bug_16_what_the_siblings_use_counts(tmp_path: Path) -> None:
    """A group with 15 GiB left in a slice with 2 GiB left has 2 GiB."""
    slice_ = {"memory.max": 32 * GIB, "memory.current": 30 * GIB}
    leaf = {"memory.max": 16 * GIB, "memory.current": GIB}
    tree = recorded.write(tmp_path, recorded.v2("/work.slice/job.scope", at_1=slice_, at_2=leaf))
    memory = take_snapshot(tree).memory
    assert (memory.headroom, memory.limit) == (2 * GIB, 32 * GIB)
    assert str(memory.headroom_source).endswith("work.slice/memory.max")


def test_bug_17_a_limit_is_not_what_is_left(tmp_path: Path) -> None:
    """8 GiB of which 6 are held are 2, on either version of control groups."""
    second = recorded.v2("/job", at_1={"memory.max": 8 * GIB, "memory.current": 6 * GIB})
    first = recorded.v1("/job", {"memory.limit_in_bytes": 8 * GIB, "memory.usage_in_bytes": 6 * GIB})
    for name, files in (("v2", second), ("v1", first)):
        assert take_snapshot(recorded.write(tmp_path / name, files)).memory.headroom == 2 * GIB


@pytest.mark.parametrize("first", ["5:pids:/job", "1:name=systemd:/elsewhere", "0::/elsewhere"])
def test_bug_18_the_line_of_the_controller_is_read(tmp_path: Path, first: str) -> None:
    """A process has a line for each controller; the others' say nothing about memory, whichever comes first."""
    files = recorded.v1("/job", {"memory.limit_in_bytes": 8 * GIB, "memory.usage_in_bytes": 0})
    files["proc/self/cgroup"] = f"{first}\n3:memory:/job\n"
    assert take_snapshot(recorded.write(tmp_path, files)).memory.headroom == 8 * GIB


@pytest.mark.parametrize(
    ("files", "headroom"),
    [
        (recorded.v2("/job", at_1={"memory.max": GIB, "memory.current": 2 * GIB}), 0),
        (recorded.v2("/job", at_1={"memory.max": "max", "memory.current": GIB}), None),
        (recorded.v2("/job", at_1={"memory.max": 8 * GIB}), 8 * GIB),
        (recorded.v1("/job", {"memory.limit_in_bytes": 9223372036854771712, "memory.usage_in_bytes": GIB}), None),
        (recorded.v1("/job", {"memory.limit_in_bytes": 9223372036854710272, "memory.usage_in_bytes": GIB}), None),
        (recorded.v1("/job", {"memory.limit_in_bytes": 8 * GIB}), 8 * GIB),
    ],
)
def test_bug_19_no_limit_and_nothing_left(tmp_path: Path, files: dict[str, str | int], headroom: int | None) -> None:
    """Less than nothing is nothing, the words for "no limit" are none, and a limit without a usage still binds."""
    assert take_snapshot(recorded.write(tmp_path, files)).memory.headroom == headroom


@pytest.mark.parametrize("value", [True, False])
def test_bug_20_a_bool_is_no_count(value: object) -> None:
    """`True` is not one worker and `False` not none: every way in refuses both, and says what is accepted."""
    for way in (Request.of, decode, lambda value: dnp.num_proc(value, snapshot=machine())):
        with pytest.raises(TypeError, match=f"{value} is not a worker count"):
            way(value)


@pytest.mark.parametrize("text", ["banana", "-1", "8.0", "yes", "auto"])
def test_bug_21_an_unusable_override_is_not_an_override(text: str) -> None:
    """A typing error in the variable lifts no cap, and is reported."""
    settings = Settings.from_environ({"DATASET_NUM_PROC": text})
    assert [item.text for item in settings.ignored] == [text]
    assert answer(None, machine(), settings).workers == 8
    assert answer(16, machine(available=8 * GIB), settings).workers == 4


READ_TREE = """
import json, sys
from dataset_num_proc.machine.probe import take_snapshot
print(json.dumps(take_snapshot(sys.argv[1]).memory.headroom))
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bug_22_the_locale_changes_no_reading(tmp_path: Path, locale: str) -> None:
    """A group whose name is not ASCII is found in every locale."""
    files = recorded.v2("/Gerät.slice", at_1={"memory.max": 8 * GIB, "memory.current": GIB})
    root = recorded.write(tmp_path, files)
    environ = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert scripts.run("-c", READ_TREE, root, environ=environ).json() == 7 * GIB


# --- masks for responses only ---------------------------------------------------------------------------------------

RESPONSES = "unsloth.responses_only"


def responses(value: object = None, snapshot: dnp.Snapshot | None = None, **options: Any) -> int | None:  # noqa: ANN401
    """What to hand to the masking of responses."""
    options.setdefault("settings", Settings())
    return dnp.num_proc(value, site=RESPONSES, snapshot=snapshot or machine(), **options)


def test_bug_23_a_large_split_is_bounded() -> None:
    """A free choice for many rows is capped and bounded by memory like any other."""
    assert responses(rows=10**6, snapshot=machine(host=192, affinity=192)) == 8
    assert responses(rows=10**6, snapshot=machine(available=6 * GIB)) == 3


def test_bug_24_in_process_is_not_none_to_a_reader_that_chooses() -> None:
    """The word is 1 here: `None` would be sized by a rule of the reader's own, up to 64."""
    assert responses(0) == responses(rows=10**6, snapshot=machine(**POOR)) == 1


def test_bug_25_a_small_split_beside_a_large_one() -> None:
    """The longest split decides: a small evaluation set does not take the workers from a large training set."""
    both = {"train": range(10**6), "eval": range(10)}
    assert responses(dataset=both) == 8
    assert responses(4, dataset=both) == 4
    assert responses(dataset={"train": range(100), "eval": range(10)}) == 1
    assert responses(4, dataset={"train": range(100), "eval": range(10)}) == 4


def rows_of_a_stream() -> Iterator[int]:
    """Rows that nobody can count."""
    yield from range(10)


@pytest.mark.parametrize("order", [("stream", "table"), ("table", "stream")])
def test_bug_26_a_split_without_a_length_hides_no_other(order: tuple[str, str]) -> None:
    """Of a stream and a table the table is counted, whichever comes first."""
    splits = {"stream": rows_of_a_stream(), "table": range(10**6)}
    assert responses(dataset={name: splits[name] for name in order}) == 8


def test_bug_27_a_dict_of_splits_is_measured_by_its_splits() -> None:
    """Two splits of a million rows are a million rows, not two."""
    assert responses(dataset={"a": range(10**6), "b": range(10**6)}) == 8


def test_bug_28_the_override_holds_on_a_small_split() -> None:
    """The operator's 4 are 4 on a hundred rows too."""
    assert responses(rows=100, settings=Settings(override=4)) == 4


def test_bug_29_in_process_on_a_small_split() -> None:
    """An override of 0, or no memory for what was asked, is "in this process" on a small split too.

    Said as 1, which recent releases of this reader take for that; to `None` a later, larger split would be sized.
    """
    assert responses(rows=100, settings=Settings(override=0)) == 1
    with pytest.warns(dnp.WorkersReduced):
        assert responses(16, rows=100, snapshot=machine(**POOR)) == 1


@pytest.mark.parametrize(
    ("maps", "others"), [("spawn", "fork"), ("fork", "spawn"), ("spawn", "spawn"), ("fork", "fork")]
)
def test_bug_30_the_word_does_not_hang_on_the_other_module(maps: str, others: str) -> None:
    """This reader asks `multiprocessing` whether to choose by itself; 1 keeps it from that in every combination."""
    snapshot = machine(multiprocess=maps, multiprocessing=others, **UNGUARDED, **POOR)
    assert responses(rows=10**6, snapshot=snapshot) == 1


def test_bug_31_one_is_in_process() -> None:
    """1 in is "in this process", so that a 1 that some reader passes on is never a pool of one at a map."""
    assert decode(1, RESPONSES).workers == 0
    assert dnp.num_proc(1, snapshot=machine(), settings=Settings()) is None


def test_bug_32_the_number_of_rows_stands_in_one_place() -> None:
    """5,000 rows are the first to get workers, at every site, and no module repeats the number."""
    for site in ("map", RESPONSES, "trl.config"):
        assert answer(None, rows=4999, site=site).workers == 0
        assert answer(None, rows=5000, site=site).workers == 8
    package = Path(str(policy.__file__)).parent.parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"= ?5_?000\b", text)] == ["request.py"]


# --- callers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [64, 96, 192])
def test_bug_33_a_share_of_the_hosts_processors_is_no_wish(cpus: int) -> None:
    """What is derived from a host's size is capped: on 64, 96 and 192 processors a free choice is the same 8."""
    assert answer("auto", machine(host=cpus, affinity=cpus)).workers == 8


def test_bug_34_every_way_in_has_every_bound() -> None:
    """Memory and the override reach each entry point: they all give the same count."""
    snapshot = machine(available=8 * GIB)
    for settings, expected in ((Settings(), 4), (Settings(override=6), 6), (Settings(override=0), None)):
        options: dict[str, Any] = {"snapshot": snapshot, "settings": settings}
        assert dnp.num_proc(**options) == expected
        assert dnp.plan(**options).workers == (expected or 0)
        with dnp.workers(**options) as count:
            assert count == expected
        assert encode(dnp.decide(Request(), snapshot, settings)) == expected


def test_bug_35_a_free_choice_stays_one_until_the_machine_was_seen() -> None:
    """A free choice is no number before all facts are in: four processors of 192 are four."""
    assert (
        decode(None, "unsloth.sft_config") == decode("auto", "unsloth.sft_config") == Request(site="unsloth.sft_config")
    )
    assert answer("auto", machine(host=192, affinity=4)).workers == 2


@pytest.mark.parametrize(
    "site", sorted(name for name, row in SITES.items() if row.says_in_process(machine().libraries))
)
@pytest.mark.parametrize("asked", [0, 1])
def test_bug_36_in_process_survives_a_configuration(site: str, asked: int) -> None:
    """1 asked for, recorded at a site and read back there, is still "in this process", not `None` and then 8."""
    recorded_as = encode(answer(asked, site=site), site)
    read_back = decode(recorded_as, site)
    assert answer(read_back).workers == 0


def test_bug_37_an_initialised_xpu_is_not_sized_up() -> None:
    """With an XPU up and fork, a configuration says "in this process" in a word that its reader cannot size up."""
    xpu = machine(accelerators=frozenset({"xpu"}))
    for asked in (None, 8):
        decision = answer(asked, xpu, site="unsloth.sft_config")
        assert decision.binding.code is ReasonCode.XPU_FORK
        assert encode(decision, "unsloth.sft_config") == 1


@pytest.mark.parametrize(
    "snapshot",
    [
        machine(starts("spawn", offered=("spawn",)), platform="win32", **UNGUARDED),
        machine("fork", platform="darwin"),
        machine("fork", accelerators=frozenset({"xpu"})),
    ],
    ids=["win32", "darwin", "xpu"],
)
def test_bug_38_the_override_passes_every_platforms_veto(snapshot: dnp.Snapshot) -> None:
    """The operator's count holds on Windows, on macOS and with an XPU up; without it the veto stands."""
    assert answer(None, snapshot, Settings(override=4)).workers == 4
    assert answer(None, snapshot).workers == 0


@pytest.mark.parametrize(
    ("facts", "fields", "works"),
    [
        (POOR, {}, True),
        ({"pids_free": 0}, {}, True),
        ({"method": "spawn", **UNGUARDED}, {}, False),
        ({"accelerators": frozenset({"xpu"})}, {}, False),
        ({"daemonic": {"multiprocess": True}}, {}, False),
        ({"importing": "prepare"}, {}, False),
        ({}, {"streaming": True}, False),
        ({"method": "spawn", "platform": "win32", "main": MainModule.FILE}, {}, False),
    ],
)
def test_bug_39_only_remedies_that_work_are_named(
    facts: dict[str, Any], fields: dict[str, Any], *, works: bool
) -> None:
    """A message names the variable only where setting it gives the count that was asked for, and no crash."""
    snapshot = machine(**facts)
    reduced = answer(100, snapshot, **fields)
    assert reduced.reduced
    assert ("DATASET_NUM_PROC" in in_one_line(reduced, "map")) == works
    assert not works or answer(100, snapshot, Settings(override=100), **fields).workers == 100


FAKE_XPU = """
import json, sys, types
torch = types.ModuleType("torch")
torch.xpu = types.SimpleNamespace(is_initialized=lambda: True)
sys.modules["torch"] = torch
import dataset_num_proc as dnp
decision = dnp.plan(site="map", settings=dnp.Settings(min_rows=0))
print(json.dumps([decision.workers, decision.binding.code.value]))
"""


def test_bug_40_the_guard_for_xpu_needs_no_torch_of_its_own() -> None:
    """The state is read from the module that is there; no import of ours can fail and switch the guard off."""
    assert scripts.run("-c", FAKE_XPU).json() == [0, "xpu-fork"]


SCOPE = """
import json, multiprocess, multiprocessing
import dataset_num_proc as dnp
settings = dnp.Settings(bytes_per_worker=1)
with dnp.workers(2, start_method="forkserver", settings=settings, spawn_ready=True):
    print(json.dumps([module.get_start_method(allow_none=True) for module in (multiprocess, multiprocessing)]))
"""


def test_bug_42_the_method_is_set_where_it_has_an_effect(tmp_path: Path) -> None:
    """A scope for a map sets the method of `multiprocess`; setting `multiprocessing`'s would never reach the map."""
    script = tmp_path / "train.py"
    body = "\n".join(f"    {line}" for line in SCOPE.strip().splitlines())
    script.write_text(f'if __name__ == "__main__":\n{body}\n', encoding="utf-8")
    maps, others = scripts.run(script).json()
    assert maps == "forkserver"
    assert others != "forkserver"


ALONE = """
import json, sys
import dataset_num_proc.policy.rules
light = set(sys.modules)
import dataset_num_proc as dnp
dnp.num_proc()
heavy = {"torch", "datasets", "numpy", "dill"} & set(sys.modules)
print(json.dumps([sorted(heavy), sorted({"psutil", "multiprocess", "multiprocessing"} & light)]))
"""


def test_bug_44_the_policy_is_importable_alone() -> None:
    """Importing the policy, and asking it, loads none of torch, datasets, numpy and dill."""
    assert scripts.run("-c", ALONE).json() == [[], []]


def test_bug_47_a_stream_takes_no_workers() -> None:
    """The map of a streamed data set has no argument for workers: a count that was asked for is refused, aloud."""
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"a": [1, 2]}).to_iterable_dataset()
    assert dnp.num_proc(dataset=stream, snapshot=machine(), settings=Settings()) is None
    with pytest.warns(dnp.WorkersReduced, match="streaming"):
        assert dnp.num_proc(8, dataset=stream, snapshot=machine(), settings=Settings()) is None


@pytest.mark.parametrize("release", ["3.4.1", "4.0.0", "4.1.0", "5.2.0"])
def test_bug_48_the_way_back_from_workers_is_none(release: str) -> None:
    """A map without workers is `None` on every release: 1 is a forked worker on some, and 0 an error on others."""
    for value in (0, 1, "1", 1.0):
        assert dnp.num_proc(value, snapshot=machine(datasets=release), settings=Settings()) is None


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("asked", [None, 64])
def test_bug_49_all_ranks_together_fit(ranks: int, asked: int | None) -> None:
    """Every rank of a node may map at once: their workers together stay within the share of memory."""
    decision = answer(asked, machine(available=32 * GIB, local_world_size=ranks))
    assert decision.workers * ranks * GIB <= 16 * GIB


@pytest.mark.parametrize("asked", [1, 16])
def test_bug_50_a_message_says_what_will_happen(asked: int) -> None:
    """Where the message says "in this process", the value that is handed on is one that starts no pool."""
    decision = answer(asked, machine(**POOR))
    assert "in this process" in in_one_line(decision, "map")
    assert encode(decision) is None


def test_bug_51_an_error_that_only_looks_like_a_workers_death() -> None:
    """An error raised inside a scope passes through as the very same object, whatever its text says."""
    lookalike = ValueError("One of the subprocesses has abruptly died during map operation.")
    options: dict[str, Any] = {"snapshot": machine(), "settings": Settings()}
    with pytest.raises(ValueError, match="abruptly died") as caught, dnp.workers(2, **options):
        raise lookalike
    assert caught.value is lookalike


# --- tests that lie -------------------------------------------------------------------------------------------------


def test_bug_52_a_given_machine_is_the_machine() -> None:
    """With a snapshot given, nothing of this machine gets into the answer: 200 workers on a machine for 256."""
    snapshot = machine(host=4096, affinity=4096, available=512 * GIB)
    assert dnp.num_proc(200, snapshot=snapshot, settings=Settings()) == 200
    assert dnp.num_proc(200, snapshot=snapshot, settings=Settings(), bytes_per_worker=MIB) == 200


def test_bug_53_a_platform_is_a_value() -> None:
    """Windows is decided here by its facts, spawn alone offered, with nothing of this platform patched or left in."""
    spawn = starts("spawn", offered=("spawn",))
    windows = machine(platform="win32", multiprocess=spawn, multiprocessing=spawn, main=MainModule.FILE)
    assert (answer(100, windows).workers, answer(100, windows).start_method) == (60, "spawn")
    assert answer(4, windows, start_method="fork").binding.code is ReasonCode.NO_START_METHOD


# --- earlier history ------------------------------------------------------------------------------------------------


def test_visible_devices_are_counted_not_installed_ones(tmp_path: Path) -> None:
    """Two of eight devices made visible are two: https://github.com/unslothai/unsloth/pull/4336."""
    nodes = {f"dev/nvidia{number}": "" for number in range(8)}
    hidden = recorded.write(tmp_path / "hidden", nodes, environ={"CUDA_VISIBLE_DEVICES": "3,5"})
    assert take_snapshot(hidden).process.accelerator_count == 2
    every = recorded.write(tmp_path / "every", nodes)
    assert take_snapshot(every).process.accelerator_count == 8
