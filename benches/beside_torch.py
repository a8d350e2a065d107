#!/usr/bin/env python3
"""Kernels of tilelift beside torch, on one GPU: one table.

usage: beside_torch.py BENCH.json [--rounds N] [--rest-ms X] [--batch-ms X] [--seed N]

BENCH.json is what `tilelift bench norms rows attention --json BENCH.json` wrote on this machine. Every problem that torch has a call
for (softmax, rms_norm, layer_norm, cumsum, sort; attention by cuDNN and by torch's own flash kernel) is timed in torch on the same
shape and type: rounds in which the problems come in shuffled order, each after a rest and a warm-up, a batch of launches between two
events; the median of the rounds counts. Inputs rotate through enough buffers to overflow the L2 cache. Without torch or a GPU it
prints our times alone.
"""

import argparse
import json
import math
import random
import re
import statistics
import time

ROWS = re.compile(r"(softmax|rms_norm|layer_norm|cumsum|sort_ascending)_(f32|f16|bf16)_(\d+)x(\d+)$")
ATTENTION = re.compile(r"attention_(f16|bf16)_(\d+)x(\d+)x(\d+)x(\d+)(_causal)?$")
BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
SIZES = {"f32": 4, "f16": 2, "bf16": 2}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest-ms", type=float, default=100)
    parser.add_argument("--batch-ms", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def problems(name):
    """What torch has for a problem of ours: (name of the call, what `call` wants)."""
    if match := ROWS.match(name):
        return [("torch", (match[1], match[2], (int(match[3]), int(match[4])), False))]
    if match := ATTENTION.match(name):
        shape = tuple(int(match[i]) for i in (2, 3, 4, 5))
        # As many queries as keys: what torch calls causal is the same thing only then.
        if shape[1] == shape[2]:
            return [(backend, (backend, match[1], (1, shape[0], shape[1], shape[3]), bool(match[6]))) for backend in BACKENDS]
    return []


def call(torch, kind, elem, shape, causal, sets):
    """A function that launches the call on the next of some inputs."""
    f = torch.nn.functional
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[elem]
    one = lambda: torch.randn(*shape, device="cuda", dtype=dtype)
    if kind in BACKENDS:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        inputs = [(one(), one(), one()) for _ in range(sets)]
        backend = getattr(SDPBackend, BACKENDS[kind])

        def run(qkv):
            with sdpa_kernel(backend):
                return f.scaled_dot_product_attention(*qkv, is_causal=causal)

    else:
        inputs = [one() for _ in range(sets)]
        cols = shape[1]
        w, b = (torch.randn(cols, device="cuda", dtype=dtype) for _ in range(2))
        run = {
            "softmax": lambda x: torch.softmax(x, dim=1),
            "rms_norm": lambda x: f.rms_norm(x, (cols,), w, 1e-5),
            "layer_norm": lambda x: f.layer_norm(x, (cols,), w, b, 1e-5),
            "cumsum": lambda x: torch.cumsum(x, dim=1),
            "sort_ascending": lambda x: torch.sort(x, dim=1),
        }[kind]
    at = 0

    def launch():
        nonlocal at
        at = (at + 1) % sets
        return run(inputs[at])

    return launch


def batch(torch, launch, count):
    """Seconds per launch of a batch."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def measure(torch, problem, options):
    """A sample: inputs are made anew, so that only one problem's buffers exist at a time."""
    kind, elem, shape, causal = problem
    size = math.prod(shape) * SIZES[elem]
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    launch = call(torch, kind, elem, shape, causal, max(2, 2 * l2 // size + 1))
    torch.cuda.synchronize()
    time.sleep(options.rest_ms / 1e3)
    once = max(batch(torch, launch, 5), 1e-6)
    return batch(torch, launch, max(5, int(options.batch_ms / 1e3 / once)))


def main():
    options = arguments()
    with open(options.bench, encoding="utf-8") as f:
        bench = json.load(f)
    ours, candidates = {}, []
    for row in bench["rows"]:
        times = [e["seconds"]["median"] for e in row["entries"] if e["who"] == "tilelift"]
        if times and problems(row["problem"]):
            ours[row["problem"]] = min(times)
            candidates += [(row["problem"], who, problem) for who, problem in problems(row["problem"])]
    try:
        import torch

        usable = torch.cuda.is_available()
    except ImportError:
        usable = False
    samples = {c: [] for c in candidates}
    for r in range(options.rounds if usable else 0):
        order = list(candidates)
        random.Random(options.seed * 1000 + r).shuffle(order)
        for c in order:
            # A backend may not take the problem.
            if samples[c] is not None:
                try:
                    samples[c].append(measure(torch, c[2], options))
                except RuntimeError as e:
                    print(f"{c[0]}: {c[1]} does not run: {str(e).splitlines()[0]}")
                    samples[c] = None
    if usable:
        print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}, median of {options.rounds} rounds")
    print(f"{'problem':<44} {'ours us':>10} {'torch':>6} {'us':>10} {'torch/ours':>10}")
    for c in candidates:
        name, who, _ = c
        seconds, theirs = ours[name], statistics.median(samples[c]) if samples[c] else None
        tail = f"{theirs * 1e6:>10.1f} {theirs / seconds:>10.3f}" if theirs else f"{'-':>10} {'-':>10}"
        print(f"{name:<44} {seconds * 1e6:>10.1f} {who:>6} {tail}")


if __name__ == "__main__":
    main()
