#!/usr/bin/env python3
"""The operator graphs of `tilelift layer --graph` in torch, on one GPU: a line for each graph and way.

usage: graphs_beside_torch.py [GRAPH…] [--ways eager,default,max] [--rounds N] [--rest-ms X] [--batch-ms X]

Graphs, extents and element types are those of kernels/plain (`tilelift layer --graph all` prints them); those as exporters write them
are not here. Ways are torch as it is (eager), torch.compile (default), torch.compile in the mode max-autotune-no-cudagraphs (max), and
for attention FlexAttention (flex). Each way is captured in a CUDA graph, which calls it once for each of some sets of inputs, so that
no cache holds what comes next; rounds in which the ways come in shuffled order, each after a rest, replay that graph; the median of the
rounds counts. Kernels are those of one call, as torch's profiler counts them. Without torch or a GPU it says so and ends.
"""

import argparse
import math
import random
import statistics
import time

CACHED = 192 << 20
MOST_SETS = 12


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*")
    parser.add_argument("--ways", default="eager,default,max,flex")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest-ms", type=float, default=50)
    parser.add_argument("--batch-ms", type=float, default=10)
    return parser.parse_args()


def graphs(torch):
    """Of each graph a function that makes inputs, one that computes, and one by FlexAttention if there is one."""
    f = torch.nn.functional
    bf16, word = torch.bfloat16, torch.float32
    cuda = "cuda"

    def uniform(shape, dtype, low=-1.0, high=1.0):
        return torch.empty(shape, device=cuda, dtype=torch.float32).uniform_(low, high).to(dtype)

    def weight(shape, depth, dtype=bf16):
        most = math.sqrt(3 / depth)
        return uniform(shape, dtype, -most, most)

    def qkv_inputs(rows=4096, width=4096, heads=32, key_heads=8, head=128):
        n, m = heads * head, key_heads * head
        return (
            uniform((rows, width), bf16), uniform((width,), bf16), weight((n, width), width), weight((m, width), width),
            weight((m, width), width), uniform((rows, head // 2), word), uniform((rows, head // 2), word),
            torch.arange(rows, device=cuda) * 2, uniform((2 * rows, m), bf16), uniform((2 * rows, m), bf16),
        )

    def rotary(x, cos, sin):
        t = x.view(x.shape[0], -1, 128).float()
        x1, x2 = t.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(bf16).view(x.shape)

    def qkv(x, scale, wq, wk, wv, cos, sin, slots, k_cache, v_cache):
        n = f.rms_norm(x, (x.shape[1],), scale, 1e-5)
        q, k, v = n @ wq.T, n @ wk.T, n @ wv.T
        k_cache.index_copy_(0, slots, rotary(k, cos, sin))
        v_cache.index_copy_(0, slots, v)
        return rotary(q, cos, sin)

    def swiglu_inputs(rows=4096, width=4096, inner=14336):
        return (uniform((rows, width), bf16), weight((inner, width), width), weight((inner, width), width), weight((width, inner), inner))

    def swiglu(x, gate, up, down):
        return (f.silu(x @ gate.T) * (x @ up.T)) @ down.T + x

    def gelu_inputs(rows=8192, width=2048, inner=8192):
        return (
            uniform((rows, width), bf16), uniform((width,), bf16), uniform((width,), bf16), weight((inner, width), width),
            uniform((inner,), bf16), weight((width, inner), inner), uniform((width,), bf16),
        )

    def gelu_mlp(x, scale, shift, w1, b1, w2, b2):
        n = f.layer_norm(x, (x.shape[1],), scale, shift, 1e-5)
        return f.linear(f.gelu(f.linear(n, w1, b1), approximate="tanh"), w2, b2) + x

    def norm_quantise(x, residual, w):
        h = x + residual
        n = f.rms_norm(h, (h.shape[1],), w, 1e-5).float()
        s = n.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448.0
        return h, (n / s).to(torch.float8_e4m3fn), s

    def routing(x):
        w, i = torch.topk(torch.softmax(x, -1), 8)
        return w / w.sum(-1, keepdim=True), i

    def conv_inputs(images=32, side=64, channels=256):
        def last(t):
            return t.to(memory_format=torch.channels_last)

        return (
            last(uniform((images, channels, side, side), bf16)), uniform((channels,), bf16), uniform((channels,), bf16),
            last(weight((channels, channels, 3, 3), 9 * channels)),
        )

    def group_norm_conv(x, w, b, taps):
        return f.conv2d(f.silu(f.group_norm(x, x.shape[1] // 8, w, b)), taps, padding=1)

    def cross_entropy(x, target):
        return f.cross_entropy(x.float(), target, reduction="none")

    def state_inputs(rows=256, width=8192, states=16):
        a = lambda *shape: uniform(shape, bf16)
        g = lambda *shape: uniform(shape, word)
        return (a(rows, width, 1), a(rows, width, 1), a(rows, width, 1), g(1, width, 1), g(1, width, 1), g(1, width, states),
                a(rows, 1, states), a(rows, 1, states), g(rows, width, states))

    def state_update(dt, x, z, bias, skip, decay, into, out, h):
        d = f.softplus(dt.float() + bias)
        new = h * torch.exp(d * decay) + d * x.float() * into.float()
        y = (new * out.float()).sum(-1, keepdim=True) + x.float() * skip
        return new, (y * f.silu(z.float())).to(bf16)

    def sampling(x):
        p = torch.softmax(x.float() / 0.75, -1)
        return (p / torch.empty_like(p).exponential_()).argmax(-1)

    rows, heads, depth, cap = 4096, 64, 128, 20.0

    def attention_inputs(per_head):
        made = tuple(uniform((1, heads, rows, depth), bf16) for _ in range(3))
        return made + ((uniform((heads,), word),) if per_head else ())

    def attend(q, k, v, change=None, sink=None):
        s = (q @ k.transpose(-1, -2)).float() / math.sqrt(depth)
        if change is not None:
            s = change(s)
        i = torch.arange(rows, device=cuda)
        s = s.masked_fill(i[None, :] > i[:, None], -math.inf)
        if sink is None:
            return torch.softmax(s, -1).to(bf16) @ v
        most = s.amax(-1, keepdim=True)
        e = torch.exp(s - most)
        return (e / (e.sum(-1, keepdim=True) + torch.exp(sink[None, :, None, None] - most))).to(bf16) @ v

    def softcap(q, k, v):
        return attend(q, k, v, lambda s: cap * torch.tanh(s / cap))

    def sinks(q, k, v, sink):
        return attend(q, k, v, sink=sink)

    def alibi(q, k, v, slope):
        i = torch.arange(rows, device=cuda)
        return attend(q, k, v, lambda s: s + slope[None, :, None, None] * (i[None, :] - i[:, None]))

    def flex(score_mod, mask=[]):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        if not mask:
            mask.append(create_block_mask(lambda b, h, i, j: j <= i, None, None, rows, rows, device=cuda))
        return lambda q, k, v, *more: flex_attention(q, k, v, score_mod=score_mod(*more), block_mask=mask[0])

    def flex_softcap():
        return flex(lambda: lambda s, b, h, i, j: cap * torch.tanh(s / cap))

    def flex_alibi():
        return flex(lambda slope: lambda s, b, h, i, j: s + slope[h] * (j - i))

    def long_rows(count):
        return uniform((count, 128256), bf16, -8.0, 8.0)

    return {
        "qkv": (qkv_inputs, qkv, None),
        "swiglu": (swiglu_inputs, swiglu, None),
        "gelu_mlp": (gelu_inputs, gelu_mlp, None),
        "norm_quantise": (lambda: (uniform((16384, 4096), bf16), uniform((16384, 4096), bf16), uniform((4096,), bf16)), norm_quantise, None),
        "routing": (lambda: (uniform((16384, 256), word, -4.0, 4.0),), routing, None),
        "group_norm_conv": (conv_inputs, group_norm_conv, None),
        "cross_entropy": (lambda: (long_rows(8192), torch.randint(128256, (8192,), device=cuda)), cross_entropy, None),
        "state_update": (state_inputs, state_update, None),
        "sampling": (lambda: (long_rows(256),), sampling, None),
        "attention_softcap": (lambda: attention_inputs(False), softcap, flex_softcap),
        "attention_sink": (lambda: attention_inputs(True), sinks, None),
        "attention_alibi": (lambda: attention_inputs(True), alibi, flex_alibi),
    }


def kernels(torch, run):
    """Kernels of one call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    return sum(1 for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA)


def captured(torch, function, sets):
    """A CUDA graph that calls the function once for each set of inputs, and seconds until the function ran first."""
    start = time.perf_counter()
    function(*sets[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function(*sets[0])
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for inputs in sets:
            function(*inputs)
    return graph, first


def batch(torch, graph, count):
    """Seconds per replay."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / count


def main():
    options = arguments()
    try:
        import torch
    except ImportError:
        return print("torch is not there")
    if not torch.cuda.is_available():
        return print("torch sees no GPU")
    torch._dynamo.config.cache_size_limit = 64
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name(0)}, median of {options.rounds} rounds", flush=True)
    ways = options.ways.split(",")
    for name, (inputs, function, flex) in graphs(torch).items():
        if options.graphs and name not in options.graphs:
            continue
        torch.manual_seed(1)
        torch._dynamo.reset()
        one = inputs()
        size = sum(t.numel() * t.element_size() for t in one)
        sets = [one] + [inputs() for _ in range(max(1, min(MOST_SETS, -(-CACHED // size))) - 1)]
        made = {}
        for way in ways:
            try:
                with torch.no_grad():
                    if way == "flex" and flex is None:
                        continue
                    base = flex() if way == "flex" else function
                    mode = {"default": None, "flex": None, "max": "max-autotune-no-cudagraphs"}
                    run = base if way == "eager" else torch.compile(base, mode=mode[way], dynamic=False)
                    graph, first = captured(torch, run, sets)
                    made[way] = (graph, first, kernels(torch, lambda: run(*one)), [])
            except Exception as e:  # what does not compile or fit is said, and the others go on
                print(f"beside      {name} torch {way}: does not run: {str(e).splitlines()[0] if str(e) else type(e).__name__}", flush=True)
                torch.cuda.empty_cache()
        for r in range(options.rounds):
            order = list(made)
            random.Random(r).shuffle(order)
            for way in order:
                graph, _, _, samples = made[way]
                time.sleep(options.rest_ms * 1e-3)
                count = max(1, int(options.batch_ms * 1e-3 / max(batch(torch, graph, 1), 1e-6)))
                samples.append(batch(torch, graph, count) / len(sets))
        for way, (_, first, count, samples) in made.items():
            seconds = statistics.median(samples)
            spread = f"{min(samples) * 1e6:.1f} to {max(samples) * 1e6:.1f}"
            print(f"beside      {name} torch {way}: {count} kernels, {seconds * 1e6:.1f} us ({spread}), first call {first:.1f} s", flush=True)
        del made, sets, one
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
