"""Compiles attention with Triton to code objects, without a GPU, into a folder.

usage: triton_attention.py FOLDER CHIP

Writes FOLDER/NAME.hsaco and FOLDER/NAME.s, and prints a line per kernel: NAME ENTRY WAVES SHARED_BYTES.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def attention(q, k, v, out, queries, keys, scale, GUARDED: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    dim = tl.arange(0, D)
    col = tl.arange(0, BN)
    tq = tl.load(q + row[:, None] * D + dim[None, :], mask=(row < queries)[:, None], other=0.0)
    pk = k + col[None, :] * D + dim[:, None]
    pv = v + col[:, None] * D + dim[None, :]
    scale *= 1.4426950408889634
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, keys, BN):
        if GUARDED:
            inside = first + col < keys
            tk = tl.load(pk, mask=inside[None, :], other=0.0)
            tv = tl.load(pv, mask=inside[:, None], other=0.0)
            s = tl.where(inside[None, :], tl.dot(tq, tk), -float("inf"))
        else:
            tk = tl.load(pk)
            tv = tl.load(pv)
            s = tl.dot(tq, tk)
        new = tl.maximum(top, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - new[:, None])
        keep = tl.exp2(top - new)
        total = total * keep + tl.sum(p, 1)
        acc = tl.dot(p.to(tv.dtype), tv, acc * keep[:, None])
        top = new
        pk += BN * D
        pv += BN * D
    acc = acc / total[:, None]
    tl.store(out + row[:, None] * D + dim[None, :], acc.to(tl.float16), mask=(row < queries)[:, None])


def main():
    folder, chip = Path(sys.argv[1]), sys.argv[2]
    names = attention.arg_names
    types = {p: "*fp16" for p in ("q", "k", "v", "out")} | {"queries": "i32", "keys": "i32", "scale": "fp32"}
    aligned = {(names.index(p),): [["tt.divisibility", 16]] for p in ("q", "k", "v", "out", "queries", "keys")}
    for dim in (128, 64):
        for guarded in (True, False):
            constants = {"GUARDED": guarded, "D": dim, "BM": 128, "BN": 64}
            constexprs = {(names.index(c),): v for c, v in constants.items()}
            source = ASTSource(attention, types | {c: "constexpr" for c in constants}, constexprs=constexprs, attrs=aligned)
            built = triton.compile(source, target=GPUTarget("hip", chip, 64), options={"num_warps": 4, "num_stages": 2})
            name = f"{dim}_{'guarded' if guarded else 'unguarded'}"
            (folder / f"{name}.hsaco").write_bytes(built.asm["hsaco"])
            (folder / f"{name}.s").write_text(built.asm["amdgcn"])
            print(name, built.metadata.name, built.metadata.num_warps, built.metadata.shared)


if __name__ == "__main__":
    main()
