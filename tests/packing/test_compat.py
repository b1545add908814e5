"""Our classes in place of ms-swift's: wherever it has its own, with its plugins, and gone again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dataset_num_proc import packing
from dataset_num_proc.compat import ms_swift
from dataset_num_proc.errors import RowsLost, UpstreamUnknown

PACKAGE = {
    "swift/__init__.py": "",
    "swift/utils.py": """
from importlib import import_module
imported = []
def get_external_files():
    return ["plugin.py"]
def import_external_file(file):
    imported.append(file)
""",
    "swift/template.py": "class MaxLengthError(ValueError): pass",
    "swift/dataset/__init__.py": "from .packing import IterablePackingDataset, PackingDataset",
    "swift/dataset/packing.py": """
class PackingDataset: pass
class IterablePackingDataset: pass
""",
    "swift/sft.py": "from swift.dataset import PackingDataset as Packed",
}


@pytest.fixture
def swift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with the names of ms-swift 4.6.0, installed where this test alone sees it."""
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    release(tmp_path, "ms-swift", "4.6.0")
    release(tmp_path, "binpacking", "2.0.1")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "swift"]:
        del sys.modules[name]


def release(folder: Path, name: str, number: str) -> None:
    """Has a package be installed in that release."""
    for old in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n", encoding="utf-8")


@pytest.mark.usefixtures("swift")
def test_everywhere_and_back() -> None:
    """Every name by which ms-swift holds its classes is ours, whatever imported it; undone, each is the stock one."""
    home: Any = import_module("swift.dataset.packing")
    sft: Any = import_module("swift.sft")
    stock = home.PackingDataset
    with ms_swift.install() as done:
        assert set(done.places) == {
            "swift.dataset.packing.PackingDataset",
            "swift.dataset.packing.IterablePackingDataset",
            "swift.dataset.PackingDataset",
            "swift.dataset.IterablePackingDataset",
            "swift.sft.Packed",
        }
        assert issubclass(sft.Packed, packing.PackingDataset)
        assert issubclass(home.IterablePackingDataset, packing.IterablePackingDataset)
        assert ms_swift.install().places == ()  # once is enough
    assert (home.PackingDataset, sft.Packed, done.places) == (stock, stock, ())


def test_another_release_is_left_alone(swift: Path) -> None:
    """Where ms-swift is of a release that ours was not compared with, nothing is replaced, and a warning names both."""
    release(swift, "ms-swift", "4.7.0")
    with pytest.warns(UpstreamUnknown, match=r"ms-swift is 4\.7\.0, and packs were compared with 4\.6\.0 alone"):
        assert ms_swift.install().places == ()


def test_the_meaning_of_the_installed_binpacking(swift: Path) -> None:
    """The default strategy is what the installed binpacking does; any other name is what it says."""
    assert ms_swift.as_installed("binpack") == "binpack-2"
    release(swift, "binpacking", "1.5.2")
    assert ms_swift.as_installed("binpack") == "binpack"
    assert ms_swift.as_installed("sequential") == "sequential"


def fails_above_two(row: int) -> dict[str, Any]:
    """An encoder that takes few rows."""
    if row > 2:
        message = f"row {row} is bad"
        raise ValueError(message)
    return {"input_ids": [row]}


@pytest.mark.usefixtures("swift")
def test_bad_rows_in_ms_swifts_place() -> None:
    """Whoever has ms-swift leave bad rows out has them left out, whatever their share, and counted; not all of them."""
    with ms_swift.install():
        streamed: Any = import_module("swift.dataset").IterablePackingDataset
        options: dict[str, Any] = {"num_proc": 0, "encode": fails_above_two, "packing_length": 8}
        mostly_bad = streamed(None, range(9), **options)
        assert [[item["input_ids"][0] for item in pack] for pack in mostly_bad] == [[0, 1, 2]]
        assert (mostly_bad.stats.encoded, mostly_bad.stats.dropped) == (3, {"ValueError": 6})
        with pytest.raises(RowsLost, match="all 4 rows were dropped: ValueError 4×"):
            list(streamed(None, range(5, 9), **options))


@pytest.mark.usefixtures("swift")
def test_as_ms_swift_calls_them() -> None:
    """The call that ms-swift makes, with all of its arguments, gives its layout for two processes and its plugins."""

    class Template:
        max_length, use_model, model = 8, True, object()
        packing = padding_free = False

        def encode(self, row: int, *, return_length: bool = False) -> dict[str, Any]:
            return {"input_ids": [row] * row, "lengths": return_length}

    with ms_swift.install():
        dataset: Any = import_module("swift.dataset")
        import_module("swift.template")
        options = {
            "num_proc": 2,
            "packing_length": None,
            "packing_num_proc": 2,
            "packing_strategy": "binpack",
            "strict": False,
            "load_from_cache_file": True,
            "multiprocessing_context": None,
        }
        stream = dataset.IterablePackingDataset(Template(), [5, 3], **options)
        lengths = [(row * 37) % 9 for row in range(1500)]
        table = dataset.PackingDataset(Template(), lengths, lengths=lengths, **options)
    pool = stream.pool
    assert (pool.init, pool.init_args, pool.consumers, pool.needs) == (
        ms_swift.replay_plugins,
        (["plugin.py"],),
        1,
        ("model",),
    )
    assert [error.__name__ for error in pool.skip] == ["MaxLengthError"]
    assert table.layout == packing.pack_lengths(lengths, 8, strategy="binpack-2", legacy_chunks=2)
    ms_swift.replay_plugins(["a.py"])
    assert import_module("swift.utils").imported == ["a.py"]
