#!/usr/bin/env python3
"""Compiles a kernel through the C interface, binds its arguments, and launches it with the CUDA driver; nothing but ctypes is needed.

    cargo build --release -p tilelift-capi
    python3 tools/capi/examples/launch.py target/release/libtilelift_capi.so

The launch is bound once; then its numbers, its memory and its grid are changed, as an engine does from token to token. Where there is no CUDA driver,
it is bound to addresses of no device, and its parameters are printed.
"""

import ctypes as c
import json
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


class Argument(c.Structure):
    """tilelift_argument: a view if it has extents, else a float."""

    _fields_ = [
        ("kind", c.c_uint32),
        ("rank", c.c_uint32),
        ("address", c.c_uint64),
        ("len", c.c_uint64),
        ("offset", c.c_uint64),
        ("extents", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("integer", c.c_int64),
        ("real", c.c_double),
    ]


class Parameter(c.Structure):
    """tilelift_parameter: this kernel has numbers alone, so the fields of tensor maps are only room."""

    _fields_ = [("value", c.c_uint64), ("kind", c.c_uint32), ("size", c.c_uint32), ("map", c.c_uint64 * 18)]


Grid = c.c_uint32 * 3


def library(path):
    """The functions that are used here, with their types."""
    lib = c.CDLL(path)
    for name, result, arguments in [
        ("tilelift_compiler_new", c.c_void_p, [c.c_char_p, c.c_void_p, c.POINTER(c.c_void_p)]),
        ("tilelift_compile", c.c_void_p, [c.c_void_p, c.c_char_p, c.c_size_t, c.c_char_p, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_new", c.c_void_p, [c.c_void_p, Grid, c.POINTER(Argument), c.c_size_t, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_set_pointer", c.c_int, [c.c_void_p, c.c_uint32, c.c_uint64, c.c_uint64, c.c_uint64, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_set_float", c.c_int, [c.c_void_p, c.c_uint32, c.c_double, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_set_extent", c.c_int, [c.c_void_p, c.c_uint32, c.c_uint32, c.c_int64, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_set_grid", c.c_int, [c.c_void_p, Grid, c.POINTER(c.c_void_p)]),
        ("tilelift_launch_blocks", c.c_int, [c.c_void_p, c.c_uint32, Grid]),
        ("tilelift_launch_parameters", c.POINTER(Parameter), [c.c_void_p, c.POINTER(c.c_size_t)]),
        ("tilelift_launch_free", None, [c.c_void_p]),
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


class Launch:
    """A kernel of the library with a view and a factor; every change is checked, and one that is wrong raises."""

    def __init__(self, lib, target):
        self.lib, self.error, self.handle = lib, c.c_void_p(), None
        self.compiler = self.made(lib.tilelift_compiler_new(target.encode(), None, c.byref(self.error)))
        self.artifact = self.made(lib.tilelift_compile(self.compiler, SCALE, len(SCALE), None, c.byref(self.error)))
        parts = (lib.tilelift_artifact_text, lib.tilelift_artifact_entry, lib.tilelift_artifact_launch)
        self.text, self.entry, described = [part(self.artifact).get() for part in parts]
        self.kernel = json.loads(described)["kernels"][0]

    def made(self, result):
        if not result:
            message = self.lib.tilelift_error_message(self.error).decode()
            self.lib.tilelift_error_free(self.error)
            raise ValueError(message)
        return result

    def bind(self, address, length, numbers, factor):
        extents = (c.c_int64 * 1)(numbers)
        view = Argument(kind=0, rank=1, address=address, len=length, extents=extents)
        arguments = (Argument * 2)(view, Argument(kind=2, real=factor))
        new = self.lib.tilelift_launch_new
        self.handle = self.made(new(self.artifact, Grid(blocks_of(numbers), 1, 1), arguments, 2, c.byref(self.error)))

    def change(self, what, *values):
        self.made(getattr(self.lib, f"tilelift_launch_set_{what}")(self.handle, *values, c.byref(self.error)))

    def parameters(self):
        """The parameters; they belong to the launch, until it is changed."""
        count = c.c_size_t()
        first = self.lib.tilelift_launch_parameters(self.handle, c.byref(count))
        return [first[n] for n in range(count.value)]

    def run(self, cuda, function):
        """Launches it; of nothing, nothing."""
        blocks = Grid()
        if not self.lib.tilelift_launch_blocks(self.handle, 1, blocks):
            return
        parameters = self.parameters()
        pointers = (c.c_void_p * len(parameters))(*[c.addressof(p) for p in parameters])
        shared = c.c_uint(self.kernel["shared_bytes"]["dynamic"])
        sizes = [c.c_uint(n) for n in list(blocks) + self.kernel["block"]]
        check(cuda.cuLaunchKernel(function, *sizes, shared, None, pointers, None))

    def free(self):
        self.lib.tilelift_launch_free(self.handle)
        self.lib.tilelift_artifact_free(self.artifact)
        self.lib.tilelift_compiler_free(self.compiler)


def blocks_of(numbers):
    return -(-numbers // 1024)


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


def changed(launch, address, length, numbers):
    """What an engine changes between two launches: memory, a number, and how many rows there are."""
    launch.change("float", 1, 0.5)
    launch.change("pointer", 0, address, length, 0)
    launch.change("extent", 0, 0, numbers)
    launch.change("grid", Grid(blocks_of(numbers), 1, 1))


def launched(launch, cuda, values, fewer):
    """The values after a launch with 2.5, one of the first `fewer` in other memory with 0.5, and one of none."""
    module, function, size = c.c_void_p(), c.c_void_p(), 4 * len(values)
    check(cuda.cuModuleLoadData(c.byref(module), launch.text + b"\0"))
    check(cuda.cuModuleGetFunction(c.byref(function), module, launch.entry))
    addresses, results = [], []
    for _ in range(2):
        address = c.c_uint64()
        check(cuda.cuMemAlloc_v2(c.byref(address), c.c_size_t(size)))
        check(cuda.cuMemcpyHtoD_v2(address, (c.c_float * len(values))(*values), c.c_size_t(size)))
        addresses.append(address)
    launch.bind(addresses[0].value, size, len(values), 2.5)
    launch.run(cuda, function)
    changed(launch, addresses[1].value, size, fewer)
    launch.run(cuda, function)
    launch.change("grid", Grid(0, 1, 1))
    launch.run(cuda, function)
    check(cuda.cuCtxSynchronize())
    for address in addresses:
        data = (c.c_float * len(values))()
        check(cuda.cuMemcpyDtoH_v2(data, address, c.c_size_t(size)))
        check(cuda.cuMemFree_v2(address))
        results.append(list(data))
    check(cuda.cuModuleUnload(module))
    return results


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    launch = Launch(library(sys.argv[1]), "sm_80")
    kinds = [p["kind"] for p in launch.kernel["parameters"]]
    threads = launch.kernel["block"][0]
    print(f"@{launch.kernel['kernel']} for {launch.kernel['target']}: {len(launch.text)} bytes, blocks of {threads} threads, parameters {kinds}")
    cuda, values, fewer = driver(), [float(n % 97) for n in range(10000)], 2048
    if cuda is None:
        launch.bind(0x10000, 40000, len(values), 2.5)
        first = [p.value for p in launch.parameters()]
        changed(launch, 0x20000, 40000, fewer)
        print(f"there is no CUDA driver here; nothing is launched. parameters {first}, then {[p.value for p in launch.parameters()]}")
    else:
        want = [[2.5 * v for v in values], [0.5 * v for v in values[:fewer]] + values[fewer:]]
        if launched(launch, cuda, values, fewer) != want:
            raise SystemExit("the launch is wrong")
        print("launched: every value is right")
    try:
        launch.change("extent", 0, 0, 10004)
        raise SystemExit("an extent beyond the memory is taken")
    except ValueError as e:
        print(f"refused: {e}")
    launch.free()


if __name__ == "__main__":
    main()
