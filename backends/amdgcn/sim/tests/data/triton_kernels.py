"""Compiles kernels with Triton to AMDGCN assembly, without a GPU, into a folder.

usage: triton_kernels.py FOLDER CHIP

Writes FOLDER/NAME.s and FOLDER/NAME.hsaco, and prints a line per kernel: NAME ENTRY WAVES SHARED_BYTES.
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
    tl.store(out + at, (a * tl.sigmoid(a) * b).to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    t = tl.load(x + row * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(t - tl.max(t, axis=0))
    tl.store(out + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def row_sum(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    t = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    tl.store(out + row, tl.sum(t, axis=0))


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
def histogram(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.atomic_add(out + tl.load(x + at, mask=mask, other=0), 1, mask=mask)


@triton.jit
def gemm(a, b, c, m, n, k, ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    deep = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for first in range(0, k, BK):
        inside = first + deep < k
        ta = tl.load(a + row[:, None] * k + (first + deep)[None, :], mask=(row < m)[:, None] & inside[None, :], other=0.0)
        tb = tl.load(b + (first + deep)[:, None] * n + col[None, :], mask=inside[:, None] & (col < n)[None, :], other=0.0)
        acc = tl.dot(ta, tb, acc, out_dtype=ACC)
    tl.store(c + row[:, None] * n + col[None, :], acc, mask=(row < m)[:, None] & (col < n)[None, :])


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * length * D
    dim = tl.arange(0, D)
    tq = tl.load(q + head + row[:, None] * D + dim[None, :], mask=(row < length)[:, None], other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, (tl.program_id(0) + 1) * BM, BN):
        col = first + tl.arange(0, BN)
        tk = tl.load(k + head + col[None, :] * D + dim[:, None], mask=(col < length)[None, :], other=0.0)
        tv = tl.load(v + head + col[:, None] * D + dim[None, :], mask=(col < length)[:, None], other=0.0)
        s = tl.where(row[:, None] >= col[None, :], tl.dot(tq, tk) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        keep = tl.exp2(top - new)
        total = total * keep + tl.sum(p, 1)
        acc = tl.dot(p.to(tv.dtype), tv, acc * keep[:, None])
        top = new
    acc = acc / total[:, None]
    tl.store(out + head + row[:, None] * D + dim[None, :], acc.to(out.dtype.element_ty), mask=(row < length)[:, None])


def block(n):
    return {"BLOCK": n}


def tile(acc, m=64, n=64, k=32):
    return {"ACC": acc, "BM": m, "BN": n, "BK": k}


HEAD = {"D": 64, "BM": 64, "BN": 64}

# Name: kernel, parameter types, constants, parameters that are multiples of 16, waves, chips.
KERNELS = {
    "vector_add": (vector_add, "*fp32 *fp32 *fp32 i32", block(256), "x y out", 4, ""),
    "silu_mul": (silu_mul, "*fp16 *fp16 *fp16 i32", block(1024), "x y out n", 4, ""),
    "silu_mul_bf16": (silu_mul, "*bf16 *bf16 *bf16 i32", block(1024), "x y out n", 4, ""),
    "softmax": (softmax, "*fp32 *fp32 i32", block(1024), "x out", 4, ""),
    "row_sum": (row_sum, "*fp32 *fp32 i32", block(512), "x out", 4, ""),
    "argmax": (argmax, "*fp32 *i32 i32", block(512), "x out", 4, ""),
    "cumsum": (cumsum, "*fp32 *fp32 i32", block(512), "x out", 4, ""),
    "layer_norm": (layer_norm, "*fp32 *fp32 *fp32 *fp32 i32 fp32", block(1024), "x w b out", 8, ""),
    "histogram": (histogram, "*i32 *i32 i32", block(256), "x out", 4, ""),
    "gemm_f16": (gemm, "*fp16 *fp16 *fp32 i32 i32 i32", tile(tl.float32), "a b c n k", 4, ""),
    "gemm_f16_large": (gemm, "*fp16 *fp16 *fp32 i32 i32 i32", tile(tl.float32, 128, 128, 64), "a b c n k", 4, ""),
    "gemm_bf16": (gemm, "*bf16 *bf16 *fp32 i32 i32 i32", tile(tl.float32), "a b c n k", 4, ""),
    "gemm_f32": (gemm, "*fp32 *fp32 *fp32 i32 i32 i32", tile(tl.float32), "a b c n k", 4, ""),
    "gemm_i8": (gemm, "*i8 *i8 *i32 i32 i32 i32", tile(tl.int32), "a b c n k", 4, ""),
    "gemm_fp8": (gemm, "*fp8e4b8 *fp8e4b8 *fp32 i32 i32 i32", tile(tl.float32), "a b c n k", 4, "gfx942"),
    "gemm_ocp8": (gemm, "*fp8e4nv *fp8e4nv *fp32 i32 i32 i32", tile(tl.float32, 128, 128, 128), "a b c n k", 4, "gfx950"),
    "attention": (attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32", HEAD, "q k v out length", 4, ""),
}


def main():
    folder, chip = Path(sys.argv[1]), sys.argv[2]
    for name, (kernel, types, constants, multiple, waves, chips) in KERNELS.items():
        if chips and chip not in chips.split():
            continue
        names = kernel.arg_names
        signature = dict(zip(names, types.split())) | {c: "constexpr" for c in constants}
        constexprs = {(names.index(c),): v for c, v in constants.items()}
        attrs = {(names.index(p),): [["tt.divisibility", 16]] for p in multiple.split()}
        source = ASTSource(kernel, signature, constexprs=constexprs, attrs=attrs)
        built = triton.compile(source, target=GPUTarget("hip", chip, 64), options={"num_warps": waves, "num_stages": 2})
        (folder / f"{name}.s").write_text(built.asm["amdgcn"])
        (folder / f"{name}.hsaco").write_bytes(built.asm["hsaco"])
        print(name, built.metadata.name, built.metadata.num_warps, built.metadata.shared)


if __name__ == "__main__":
    main()
