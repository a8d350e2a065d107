#!/usr/bin/env python3
"""Compiles a kernel through the C interface and launches it with the CUDA driver; nothing but ctypes is needed.

    cargo build --release -p tilelift-capi
    python3 tools/capi/examples/launch.py target/release/libtilelift_capi.so

Where there is no CUDA driver, what would be launched is printed.
"""

import ctypes as c
import json
import struct
import sys

SCALE = b"""kernel @scale(v0: view<f32, [?%4]>, v1: f32) {
    v2 = program_id x
    v3 = mul v2, 1024
    v4 = load v0[v3] : tile<1024xf32>
    v5 = splat v1 : tile<1024xf32>
    v6 = mul v4, v5
    store v0[v3], v6
}
"""


class Bytes(c.Structure):
    _fields_ = [("data", c.c_void_p), ("len", c.c_size_t)]

    def get(self):
        return c.string_at(self.data, self.len)


def library(path):
    """The functions that are used here, with their types."""
    lib = c.CDLL(path)
    for name, result, arguments in [
        ("tilelift_compiler_new", c.c_void_p, [c.c_char_p, c.c_void_p, c.POINTER(c.c_void_p)]),
        ("tilelift_compile", c.c_void_p, [c.c_void_p, c.c_char_p, c.c_size_t, c.c_char_p, c.POINTER(c.c_void_p)]),
        ("tilelift_error_message", c.c_char_p, [c.c_void_p]),
        ("tilelift_artifact_text", Bytes, [c.c_void_p]),
        ("tilelift_artifact_entry", Bytes, [c.c_void_p]),
        ("tilelift_artifact_launch", Bytes, [c.c_void_p]),
        ("tilelift_artifact_free", None, [c.c_void_p]),
        ("tilelift_compiler_free", None, [c.c_void_p]),
        ("tilelift_error_free", None, [c.c_void_p]),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def compiled(lib, target):
    """Text, entry and launch description of the kernel."""
    error = c.c_void_p()

    def made(handle):
        if handle is None:
            raise SystemExit(lib.tilelift_error_message(error).decode())
        return handle

    compiler = made(lib.tilelift_compiler_new(target.encode(), None, c.byref(error)))
    artifact = made(lib.tilelift_compile(compiler, SCALE, len(SCALE), None, c.byref(error)))
    parts = [part(artifact).get() for part in (lib.tilelift_artifact_text, lib.tilelift_artifact_entry, lib.tilelift_artifact_launch)]
    lib.tilelift_artifact_free(artifact)
    lib.tilelift_compiler_free(compiler)
    return parts[0], parts[1], json.loads(parts[2])["kernels"][0]


def driver():
    """The CUDA driver with a context of the first device, or None."""
    try:
        cuda = c.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = c.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(c.byref(count)) != 0 or count.value == 0:
        return None
    device, context = c.c_int(), c.c_void_p()
    check(cuda.cuDeviceGet(c.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(c.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    return cuda


def check(code):
    if code != 0:
        raise SystemExit(f"the driver says {code}")


def arguments(kernel, address, numbers, factor):
    """The parameters of the entry in the order of the description, each as bytes."""
    for p in kernel["parameters"]:
        value = {"pointer": address, "extent": numbers}.get(p["kind"])
        yield struct.pack("<f", factor) if p["kind"] == "scalar" else value.to_bytes(p["size"], "little")


def launched(cuda, text, entry, kernel, values, factor):
    """The values after a launch."""
    module, function, address = c.c_void_p(), c.c_void_p(), c.c_uint64()
    data = (c.c_float * len(values))(*values)
    check(cuda.cuModuleLoadData(c.byref(module), text + b"\0"))
    check(cuda.cuModuleGetFunction(c.byref(function), module, entry))
    check(cuda.cuMemAlloc_v2(c.byref(address), c.c_size_t(c.sizeof(data))))
    check(cuda.cuMemcpyHtoD_v2(address, data, c.c_size_t(c.sizeof(data))))
    buffers = [c.create_string_buffer(b, len(b)) for b in arguments(kernel, address.value, len(values), factor)]
    pointers = (c.c_void_p * len(buffers))(*[c.addressof(b) for b in buffers])
    grid = [-(-len(values) // 1024), 1, 1]
    shared = c.c_uint(kernel["shared_bytes"]["dynamic"])
    check(cuda.cuLaunchKernel(function, *[c.c_uint(n) for n in grid + kernel["block"]], shared, None, pointers, None))
    check(cuda.cuCtxSynchronize())
    check(cuda.cuMemcpyDtoH_v2(data, address, c.c_size_t(c.sizeof(data))))
    check(cuda.cuMemFree_v2(address))
    check(cuda.cuModuleUnload(module))
    return list(data)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    text, entry, kernel = compiled(library(sys.argv[1]), "sm_80")
    kinds = [p["kind"] for p in kernel["parameters"]]
    print(f"@{kernel['kernel']} for {kernel['target']}: {len(text)} bytes, blocks of {kernel['block'][0]} threads, parameters {kinds}")
    cuda = driver()
    if cuda is None:
        print("there is no CUDA driver here; nothing is launched")
        return
    values = [float(n % 97) for n in range(10000)]
    if launched(cuda, text, entry, kernel, values, 2.5) != [2.5 * v for v in values]:
        raise SystemExit("the launch is wrong")
    print("launched: every value is right")


if __name__ == "__main__":
    main()
