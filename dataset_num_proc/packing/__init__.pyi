from dataset_num_proc.packing.dataset import PackingDataset
from dataset_num_proc.packing.iterable_dataset import IterablePackingDataset
from dataset_num_proc.packing.layout import PackLayout, pack_lengths
from dataset_num_proc.packing.outcome import Kind, Outcome, RemoteTraceback
from dataset_num_proc.packing.pool import EncoderPool
from dataset_num_proc.packing.stats import EncodeStats

__all__ = [
    "EncodeStats",
    "EncoderPool",
    "IterablePackingDataset",
    "Kind",
    "Outcome",
    "PackLayout",
    "PackingDataset",
    "RemoteTraceback",
    "pack_lengths",
]
