#!/usr/bin/env python3
"""A layer of Llama 3 8B in torch, timed as `decoder --llama3-8b` times ours: layers with weights and caches of their own, captured as a CUDA graph, the
median of some replays. Eager, torch.compile, and torch.compile with max-autotune; attention by cuDNN and by torch's flash kernel over a contiguous cache,
which is quicker there than pages. One JSON line per setting.

usage: peer.py [--layers N] [--batches 1,16,64] [--context N] [--prompt N] [--rounds N] [--modes eager,default,max-autotune]
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

HIDDEN, HEADS, KV, DIM, MLP, EPS, THETA = 4096, 32, 8, 128, 14336, 1e-5, 500000.0
OF_GRAPH = 8  # layers of a captured graph at least, as in timing.rs


def rotated(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def layer(x, w, keys, values, cos, sin, causal):
    b, t, _ = x.shape
    n = F.rms_norm(x, (HIDDEN,), w["input_norm"], EPS)
    q, k, v = F.linear(n, w["joined"]).view(b, t, HEADS + 2 * KV, DIM).transpose(1, 2).split((HEADS, KV, KV), 1)
    q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    keys[:, :, -t:] = k
    values[:, :, -t:] = v
    o = F.scaled_dot_product_attention(q, keys, values, is_causal=causal, enable_gqa=True)
    x = x + F.linear(o.transpose(1, 2).reshape(b, t, HEADS * DIM), w["out"])
    n = F.rms_norm(x, (HIDDEN,), w["post_norm"], EPS)
    gate, up = F.linear(n, w["gate_up"]).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, w["down"])


def weights():
    shapes = {"input_norm": (HIDDEN,), "joined": ((HEADS + 2 * KV) * DIM, HIDDEN), "out": (HIDDEN, HEADS * DIM), "post_norm": (HIDDEN,)}
    shapes |= {"gate_up": (2 * MLP, HIDDEN), "down": (HIDDEN, MLP)}
    one = lambda shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) / shape[-1] ** 0.5
    return {name: one(shape) if len(shape) > 1 else torch.ones(*shape, device="cuda", dtype=torch.bfloat16) for name, shape in shapes.items()}


def measure(run, x, sets, angles, causal, rounds):
    """Microseconds of a layer, by a graph of at least OF_GRAPH of them."""
    times = -(-OF_GRAPH // len(sets))

    def all_layers():
        y = x
        for _ in range(times):
            for w, keys, values in sets:
                y = run(y, w, keys, values, *angles, causal)
        return y

    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            all_layers()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            all_layers()
        found = []
        for _ in range(rounds + 2):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(stop) * 1e3)
    return statistics.median(found[2:]) / (times * len(sets))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--modes", default="eager,default,max-autotune")
    a = parser.parse_args()
    settings = [("decode", int(b), 1, a.context) for b in a.batches.split(",") if b] + ([("prompt", 1, a.prompt, a.prompt)] if a.prompt else [])
    every = [weights() for _ in range(a.layers)]
    for what, batch, tokens, context in settings:
        cache = lambda: torch.randn(batch, KV, context, DIM, device="cuda", dtype=torch.bfloat16)
        sets = [(w, cache(), cache()) for w in every]
        x = torch.randn(batch, tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
        angle = torch.arange(context - tokens, context, device="cuda")[:, None] * THETA ** (-torch.arange(0, DIM, 2, device="cuda") / DIM)
        for attention in ("cudnn", "flash"):
            torch.backends.cuda.enable_cudnn_sdp(attention == "cudnn")
            torch.backends.cuda.enable_flash_sdp(attention == "flash")
            torch.backends.cuda.enable_mem_efficient_sdp(False)
            torch.backends.cuda.enable_math_sdp(False)
            for mode in a.modes.split(","):
                torch._dynamo.reset()
                options = {"eager": None, "default": {}, "max-autotune": {"mode": "max-autotune-no-cudagraphs"}}[mode]
                run = layer if options is None else torch.compile(layer, dynamic=False, **options)
                line = {"what": what, "batch": batch, "tokens": tokens, "context": context, "attention": attention, "mode": mode}
                began = time.time()
                try:
                    line["us"] = round(measure(run, x, sets, (angle.cos(), angle.sin()), tokens > 1, a.rounds), 1)
                    line["seconds"] = round(time.time() - began, 1)
                except RuntimeError as e:
                    line["error"] = str(e).splitlines()[0][:200]
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
