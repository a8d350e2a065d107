"""Compiles kernels with Triton for sm_80, without a GPU, into a folder.

usage: triton_kernels.py FOLDER

Writes FOLDER/NAME.ptx, and prints a line per kernel: NAME ENTRY WARPS SHARED_BYTES. Extents that the launches of the
test use are 16-divisible where a kernel says so with `multiple`; others are plain.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def silu_mul(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(y + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + at, (a * tl.sigmoid(a) * b).to(tl.float16), mask=mask)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    t = tl.load(x + row * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(t - tl.max(t, axis=0))
    tl.store(out + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def layer_norm(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    t = tl.load(x + row * cols + at, mask=mask, other=0.0)
    mean = tl.sum(t, axis=0) / cols
    d = tl.where(mask, t - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=0) / cols + eps)
    y = d * scale * tl.load(w + at, mask=mask, other=0.0) + tl.load(b + at, mask=mask, other=0.0)
    tl.store(out + row * cols + at, y, mask=mask)


@triton.jit
def argmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    t = tl.load(x + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(out + row, tl.argmax(t, axis=0))


@triton.jit
def cumsum(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    t = tl.load(x + row * cols + at, mask=mask, other=0.0)
    tl.store(out + row * cols + at, tl.cumsum(t, axis=0), mask=mask)


@triton.jit
def gemm(a, b, c, m, n, k, ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    deep = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for first in range(0, k, BK):
        inside = first + deep < k
        ta = tl.load(a + row[:, None] * k + (first + deep)[None, :], mask=(row < m)[:, None] & inside[None, :], other=0)
        tb = tl.load(b + (first + deep)[:, None] * n + col[None, :], mask=inside[:, None] & (col < n)[None, :], other=0)
        acc = tl.dot(ta, tb, acc, out_dtype=ACC)
    tl.store(c + row[:, None] * n + col[None, :], acc, mask=(row < m)[:, None] & (col < n)[None, :])


def row(block):
    return {"BLOCK": block}


def tile(acc):
    return {"ACC": acc, "BM": 64, "BN": 64, "BK": 32}


# Name: kernel, parameter types, constants, parameters that are multiples of 16, warps.
KERNELS = {
    "vector_add": (vector_add, "*fp32 *fp32 *fp32 i32", row(256), "x y out", 4),
    "silu_mul": (silu_mul, "*fp16 *fp16 *fp16 i32", row(1024), "x y out n", 4),
    "softmax": (softmax, "*fp32 *fp32 i32", row(1024), "x out", 4),
    "layer_norm": (layer_norm, "*fp32 *fp32 *fp32 *fp32 i32 fp32", row(1024), "x w b out", 8),
    "argmax": (argmax, "*fp32 *i32 i32", row(512), "x out", 4),
    "cumsum": (cumsum, "*fp32 *fp32 i32", row(512), "x out", 4),
    "gemm_f16": (gemm, "*fp16 *fp16 *fp32 i32 i32 i32", tile(tl.float32), "a b c n k", 4),
    "gemm_i8": (gemm, "*i8 *i8 *i32 i32 i32 i32", tile(tl.int32), "a b c n k", 4),
}


def main():
    folder = Path(sys.argv[1])
    for name, (kernel, types, constants, multiple, warps) in KERNELS.items():
        names = kernel.arg_names
        signature = dict(zip(names, types.split())) | {c: "constexpr" for c in constants}
        constexprs = {(names.index(c),): v for c, v in constants.items()}
        attrs = {(names.index(p),): [["tt.divisibility", 16]] for p in multiple.split()}
        source = ASTSource(kernel, signature, constexprs=constexprs, attrs=attrs)
        built = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps, "num_stages": 3})
        (folder / f"{name}.ptx").write_text(built.asm["ptx"])
        print(name, built.metadata.name, built.metadata.num_warps, built.metadata.shared)


if __name__ == "__main__":
    main()
