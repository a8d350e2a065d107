// A CUDA driver over host memory that records its calls, in the file that MOCK_RECORD names, a line each. Tests compile it as libcuda.so, and run
// themselves with its folder on LD_LIBRARY_PATH. A launch runs nothing: it records its grid and the first parameter's eight bytes.
//
// INIT is what cuInit answers (34: a stub), VERSION the driver's version. Defining a function's name as another one takes it away.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef VERSION
#define VERSION 12080
#endif

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *handle;

enum { SUCCESS = 0, INVALID_VALUE = 1, STUB = 34 };

static CUresult record(const char *line) {
    const char *path = getenv("MOCK_RECORD");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", line);
        fclose(file);
    }
    return SUCCESS;
}

#define CALLED record(__func__)

// ---- the driver, devices, contexts

CUresult cuInit(unsigned flags) { return flags ? INVALID_VALUE : INIT; }
CUresult cuDriverGetVersion(int *version) { *version = VERSION; return SUCCESS; }
CUresult cuGetErrorName(CUresult code, const char **name) { *name = code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : NULL; return SUCCESS; }
CUresult cuGetErrorString(CUresult code, const char **text) { *text = code ? "of the mock" : NULL; return SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return SUCCESS; }
CUresult cuDeviceGetName(char *name, int len, CUdevice device) { (void)device; snprintf(name, (size_t)len, "a mock"); return SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    (void)device;
    // Capability 9.0, 132 multiprocessors; whatever else is asked is a large size.
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : 232448;
    return SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { (void)device; *bytes = (size_t)1 << 34; return SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(handle *context, CUdevice device) { (void)device; *context = (handle)1; return SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { (void)device; return SUCCESS; }
CUresult cuCtxPushCurrent_v2(handle context) { return context ? SUCCESS : INVALID_VALUE; }
CUresult cuCtxPopCurrent_v2(handle *context) { *context = (handle)1; return SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *device) { *device = 0; return SUCCESS; }

// ---- modules

CUresult cuModuleLoadData(handle *module, const void *image) { *module = (handle)2; return image ? CALLED : INVALID_VALUE; }
CUresult cuModuleLoadDataEx(handle *module, const void *image, unsigned n, int *options, void **values) {
    (void)n, (void)options, (void)values;
    *module = (handle)2;
    return image ? CALLED : INVALID_VALUE;
}
CUresult cuModuleUnload(handle module) { (void)module; return CALLED; }
CUresult cuModuleGetFunction(handle *function, handle module, const char *name) { (void)module; *function = (handle)3; return name ? SUCCESS : INVALID_VALUE; }
CUresult cuFuncGetAttribute(int *value, int attribute, handle function) { (void)attribute, (void)function; *value = 32; return SUCCESS; }
CUresult cuFuncSetAttribute(handle function, int attribute, int value) { (void)attribute, (void)function, (void)value; return SUCCESS; }
CUresult cuLinkCreate_v2(unsigned n, int *options, void **values, handle *state) { (void)n, (void)options, (void)values; *state = (handle)4; return SUCCESS; }
CUresult cuLinkAddData_v2(handle state, int kind, void *data, size_t len, const char *name, unsigned n, int *options, void **values) {
    (void)state, (void)kind, (void)data, (void)len, (void)name, (void)n, (void)options, (void)values;
    return SUCCESS;
}
CUresult cuLinkComplete(handle state, void **code, size_t *len) { (void)state; *code = "machine code"; *len = 12; return SUCCESS; }
CUresult cuLinkDestroy(handle state) { (void)state; return SUCCESS; }

static void captured(void);

// ---- launches; the first fields of CUlaunchConfig are the grid, the block, and shared memory

CUresult cuLaunchKernelEx(const unsigned *config, handle function, void **params, void **extra) {
    char line[256];
    uint64_t first = 0;
    (void)function, (void)extra;
    memcpy(&first, params[0], sizeof first);
    snprintf(line, sizeof line, "cuLaunchKernelEx %u %u %u, %llx", config[0], config[1], config[2], (unsigned long long)first);
    captured();
    return record(line);
}
CUresult cuTensorMapEncodeTiled(void *map, unsigned type, unsigned rank, void *address, const uint64_t *extents, const uint64_t *strides,
                                const uint32_t *box, const uint32_t *steps, unsigned a, unsigned b, unsigned c, unsigned d) {
    (void)type, (void)extents, (void)strides, (void)box, (void)steps, (void)a, (void)b, (void)c, (void)d;
    memset(map, 0, 128);
    memcpy(map, &address, sizeof address);
    return rank ? SUCCESS : INVALID_VALUE;
}

// ---- memory of the host stands for the device's

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) { *address = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256); return SUCCESS; }
CUresult cuMemFree_v2(CUdeviceptr address) { free((void *)(uintptr_t)address); return SUCCESS; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) { memcpy((void *)(uintptr_t)to, from, bytes); return SUCCESS; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { memcpy(to, (void *)(uintptr_t)from, bytes); return SUCCESS; }
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes) { memset((void *)(uintptr_t)to, value, bytes); return SUCCESS; }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, handle stream) {
    (void)stream;
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return SUCCESS;
}

// ---- streams, events, graphs

CUresult cuStreamCreate(handle *stream, unsigned flags) { (void)flags; *stream = (handle)5; return SUCCESS; }
CUresult cuStreamDestroy_v2(handle stream) { (void)stream; return SUCCESS; }
CUresult cuStreamSynchronize(handle stream) { (void)stream; return SUCCESS; }
CUresult cuEventCreate(handle *event, unsigned flags) { (void)flags; *event = (handle)6; return SUCCESS; }
CUresult cuEventDestroy_v2(handle event) { (void)event; return SUCCESS; }
CUresult cuEventRecord(handle event, handle stream) { (void)event, (void)stream; return SUCCESS; }
CUresult cuEventSynchronize(handle event) { (void)event; return SUCCESS; }
CUresult cuEventElapsedTime(float *time, handle from, handle to) { (void)from, (void)to; *time = 1; return SUCCESS; }
static uint64_t captures;
// 1: a capture is going on; from there on the launches in it, the last of which is a node of that number.
static int capturing;
static handle last;
struct node_launch {
    handle function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
};
static void captured(void) {
    if (capturing) last = (handle)(uintptr_t)++capturing;
}
CUresult cuStreamBeginCapture_v2(handle stream, int mode) { (void)stream, (void)mode; capturing = 1; captures++; return CALLED; }
CUresult cuStreamEndCapture(handle stream, handle *graph) { (void)stream; *graph = (handle)7; capturing = 0; return CALLED; }
CUresult cuStreamGetCaptureInfo_v2(handle stream, unsigned *status, uint64_t *number, handle *graph, const handle **nodes, size_t *count) {
    (void)stream;
    *status = capturing != 0, *number = captures, *graph = (handle)7, *nodes = &last, *count = capturing > 1;
    return SUCCESS;
}
CUresult cuGraphExecKernelNodeSetParams(handle exec, handle node, const struct node_launch *params) {
    char line[256];
    uint64_t first = 0;
    (void)exec;
    memcpy(&first, params->params[0], sizeof first);
    snprintf(line, sizeof line, "cuGraphExecKernelNodeSetParams %d: %u %u %u, %llx", (int)(uintptr_t)node, params->grid[0], params->grid[1], params->grid[2],
             (unsigned long long)first);
    return record(line);
}
CUresult cuGraphNodeSetEnabled(handle exec, handle node, unsigned enabled) {
    (void)exec, (void)node;
    return record(enabled ? "cuGraphNodeSetEnabled 1" : "cuGraphNodeSetEnabled 0");
}
CUresult cuGraphInstantiateWithFlags(handle *exec, handle graph, unsigned long long flags) { (void)graph, (void)flags; *exec = (handle)8; return SUCCESS; }
CUresult cuGraphLaunch(handle exec, handle stream) { (void)exec, (void)stream; return CALLED; }
CUresult cuGraphExecDestroy(handle exec) { (void)exec; return SUCCESS; }
CUresult cuGraphDestroy(handle graph) { (void)graph; return SUCCESS; }
