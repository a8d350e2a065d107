"""Compiles matrix products with Triton to code objects, without a GPU, into a folder.

usage: triton_gemm.py FOLDER CHIP

Writes FOLDER/NAME.hsaco, and prints a line per kernel: NAME ENTRY WAVES SHARED_BYTES.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def gemm(a, b, c, m, n, k, GUARDED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    deep = tl.arange(0, BK)
    pa = a + row[:, None] * k + deep[None, :]
    pb = b + deep[:, None] * n + col[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, k, BK):
        if GUARDED:
            inside = first + deep < k
            ta = tl.load(pa, mask=(row < m)[:, None] & inside[None, :], other=0.0)
            tb = tl.load(pb, mask=inside[:, None] & (col < n)[None, :], other=0.0)
        else:
            ta = tl.load(pa)
            tb = tl.load(pb)
        acc = tl.dot(ta, tb, acc)
        pa += BK
        pb += BK * n
    out = c + row[:, None] * n + col[None, :]
    tl.store(out, acc.to(tl.float16), mask=(row < m)[:, None] & (col < n)[None, :])


def main():
    folder, chip = Path(sys.argv[1]), sys.argv[2]
    types = {p: "*fp16" for p in "abc"} | {p: "i32" for p in "mnk"}
    for size, waves in ((128, 4), (256, 8)):
        for guarded in (True, False):
            constants = {"GUARDED": guarded, "BM": size, "BN": size, "BK": 64}
            names = gemm.arg_names
            constexprs = {(names.index(c),): v for c, v in constants.items()}
            attrs = {(i,): [["tt.divisibility", 16]] for i in range(6)}
            source = ASTSource(gemm, types | {c: "constexpr" for c in constants}, constexprs=constexprs, attrs=attrs)
            built = triton.compile(source, target=GPUTarget("hip", chip, 64), options={"num_warps": waves, "num_stages": 2})
            name = f"{size}_{'guarded' if guarded else 'unguarded'}"
            (folder / f"{name}.hsaco").write_bytes(built.asm["hsaco"])
            print(name, built.metadata.name, built.metadata.num_warps, built.metadata.shared)


if __name__ == "__main__":
    main()
