"""What makes a training session light: torch without its compiler, and memory that stays."""

from __future__ import annotations

import subprocess
import sys

HEAD = """
import sys, torch
from cerebro_db.light_torch import defer_compiler
defer_compiler(torch)
weights = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.{optimizer}([weights], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weights ** 2).sum().backward()
    optimizer.step()
"""
OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD")


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_no_optimizer_brings_the_compiler_in():
    code = "".join(HEAD.replace("{optimizer}", name) for name in OPTIMIZERS)
    assert run(code + "print('torch._dynamo.eval_frame' in sys.modules)") == "False"


def test_steps_are_those_of_torch_with_its_compiler():
    code = HEAD.replace("{optimizer}", "Adam") + "print(weights.tolist())"
    light = run(code)
    whole = run(code.replace("defer_compiler(torch)", "import torch._dynamo"))
    assert light == whole != "[1.0, 1.0, 1.0]"


def test_any_other_use_loads_the_real_one():
    asked = "print(torch._dynamo.config.__name__, type(torch._dynamo).__name__)"
    assert run(HEAD.replace("{optimizer}", "SGD") + asked) == "torch._dynamo.config module"


def test_freed_memory_stays_with_the_process():
    """Blocks of 8 MB that are freed and asked for again cost no new page faults once malloc is told."""
    code = """
import ctypes, resource
from cerebro_db import memory
assert memory.keep_freed()
def touch():
    block = (ctypes.c_char * (8 << 20))()
    ctypes.memset(block, 1, 8 << 20)
for _ in range(3):
    touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 2048)
"""
    assert run(code) == "True"
