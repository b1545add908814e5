"""Public trouble reports: accelerators in the parent."""

from __future__ import annotations

from dataset_num_proc.policy.decision import ReasonCode
from dataset_num_proc.policy.facts import MainModule
from dataset_num_proc.policy.findings import findings
from dataset_num_proc.policy.request import Settings
from dataset_num_proc.report import sentence
from tests import scripts
from tests.values import answer, machine

SIX_GPUS = {"accelerators": frozenset({"cuda"}), "accelerator_count": 6}


def test_c39_datasets_6435_a_function_on_the_gpu() -> None:
    """A function on 6 GPUs gets 6 workers of a clean start method, and none by fork (huggingface/datasets#6435).

    The report's answer is spawn; where forkserver is offered it is as clean, and imports once for all workers.
    """
    guarded = machine("fork", main=MainModule.FILE, **SIX_GPUS)
    decision = answer(None, guarded, touches_accelerator=True, start_method="auto")
    assert (decision.workers, decision.start_method, decision.binding.code) == (6, "forkserver", ReasonCode.DEVICES)
    forked = answer(6, guarded, touches_accelerator=True)
    assert (forked.workers, forked.binding.code) == (0, ReasonCode.ACCELERATOR_FORK)
    assert "cuda" in sentence(forked.binding)


def test_c39_datasets_6435_an_unguarded_script() -> None:
    """Where the script could not be imported again the clean method is refused, with the line to guard."""
    unguarded = machine("fork", main=MainModule.UNGUARDED, main_file="train.py", main_line=7, **SIX_GPUS)
    decision = answer(6, unguarded, touches_accelerator=True, start_method="auto")
    assert (decision.workers, decision.binding.code) == (0, ReasonCode.SPAWN_NOT_READY)
    assert "line 7 of train.py" in sentence(decision.binding)


POISONED = """
import json, sys, types
asked, answered = [], []
def ask(name, answer):
    def question(*arguments):
        asked.append(name)
        return answer
    return question
questions = ("is_available", "device_count", "current_device", "init")
cuda = types.SimpleNamespace(**{name: ask(name, 1) for name in questions})
cuda.is_initialized = lambda: bool(answered.append("is_initialized"))
torch = types.ModuleType("torch")
torch.cuda, torch.__version__ = cuda, "2.13.0"
torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=ask("mps", False)))
sys.modules["torch"] = torch
import dataset_num_proc as dnp
from dataset_num_proc.__main__ import main
dnp.num_proc(), dnp.num_proc(4, touches_accelerator=True), dnp.plan(site="dataloader"), dnp.mp_context()
with dnp.workers(4):
    pass
main(["doctor"])
main(["doctor", "--json"])
print()
print(json.dumps([asked, sorted(set(answered))]))
"""


def test_c41_pytorch_190708_asking_poisons_nothing() -> None:
    """No question of ours, `doctor` included, is one that starts a driver in the parent (pytorch/pytorch#190708)."""
    assert scripts.run("-c", POISONED).json() == [[], ["is_initialized"]]


def test_c41_pytorch_190708_the_safe_check_is_recommended() -> None:
    """Where torch and devices are there, `doctor` names the variable that makes torch's own questions safe."""
    found = {item.code: item for item in findings(machine(torch="2.13.0", accelerator_count=1), Settings(), {})}
    assert "PYTORCH_NVML_BASED_CUDA_CHECK=1" in found["nvml-check"].next
