#!/usr/bin/env python3
"""Row kernels of tilelift beside torch, on one GPU: one table.

usage: beside_torch.py BENCH.json [--rounds N] [--rest-ms X] [--batch-ms X] [--seed N]

BENCH.json is what `tilelift bench norms rows --json BENCH.json` wrote on this machine. Every problem that torch has a call for
(softmax, rms_norm, layer_norm, cumsum, sort) is timed in torch on the same shape and type: rounds in which the problems come
in shuffled order, each after a rest and a warm-up, a batch of launches between two events; the median of the rounds counts.
Inputs rotate through enough buffers to overflow the L2 cache. Without torch or a GPU it prints our times alone.
"""

import argparse
import json
import random
import re
import statistics
import time

NAME = re.compile(r"(softmax|rms_norm|layer_norm|cumsum|sort_ascending)_(f32|f16|bf16)_(\d+)x(\d+)$")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest-ms", type=float, default=100)
    parser.add_argument("--batch-ms", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def call(torch, kind, elem, rows, cols, sets):
    """A function that launches the call on the next of some inputs."""
    f = torch.nn.functional
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[elem]
    inputs = [torch.randn(rows, cols, device="cuda", dtype=dtype) for _ in range(sets)]
    w, b = (torch.randn(cols, device="cuda", dtype=dtype) for _ in range(2))
    calls = {
        "softmax": lambda x: torch.softmax(x, dim=1),
        "rms_norm": lambda x: f.rms_norm(x, (cols,), w, 1e-5),
        "layer_norm": lambda x: f.layer_norm(x, (cols,), w, b, 1e-5),
        "cumsum": lambda x: torch.cumsum(x, dim=1),
        "sort_ascending": lambda x: torch.sort(x, dim=1),
    }
    at = 0

    def launch():
        nonlocal at
        at = (at + 1) % sets
        return calls[kind](inputs[at])

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
    kind, elem, rows, cols = problem
    size = rows * cols * (4 if elem == "f32" else 2)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    launch = call(torch, kind, elem, rows, cols, max(2, 2 * l2 // size + 1))
    torch.cuda.synchronize()
    time.sleep(options.rest_ms / 1e3)
    once = max(batch(torch, launch, 5), 1e-6)
    return batch(torch, launch, max(5, int(options.batch_ms / 1e3 / once)))


def main():
    options = arguments()
    with open(options.bench, encoding="utf-8") as f:
        bench = json.load(f)
    ours = {}
    for row in bench["rows"]:
        match = NAME.match(row["problem"])
        times = [e["seconds"]["median"] for e in row["entries"] if e["who"] == "tilelift"]
        if match and times:
            ours[(match[1], match[2], int(match[3]), int(match[4]))] = min(times)
    try:
        import torch

        usable = torch.cuda.is_available()
    except ImportError:
        usable = False
    samples = {p: [] for p in ours}
    for r in range(options.rounds if usable else 0):
        order = list(ours)
        random.Random(options.seed * 1000 + r).shuffle(order)
        for problem in order:
            samples[problem].append(measure(torch, problem, options))
    if usable:
        print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}, median of {options.rounds} rounds")
    print(f"{'problem':<36} {'ours us':>10} {'torch us':>10} {'torch/ours':>10}")
    for (kind, elem, rows, cols), seconds in ours.items():
        name = f"{kind}_{elem}_{rows}x{cols}"
        theirs = statistics.median(samples[(kind, elem, rows, cols)]) if usable else None
        tail = f"{theirs * 1e6:>10.1f} {theirs / seconds:>10.2f}" if theirs else f"{'-':>10} {'-':>10}"
        print(f"{name:<36} {seconds * 1e6:>10.1f} {tail}")


if __name__ == "__main__":
    main()
