// A HIP library over host memory that records its calls. Tests compile it, open it in place of AMD's, and read the record.
//
// Each call is a line of the record. A call fails if the test said so, by its place in the record or by its name; what destroys a thing
// destroys it even then. A launch runs nothing: it records its arguments' bytes, and sets the first byte of the buffer that the first
// argument points to, so that a copy back has something to find. Defining a function's name as another one takes it away.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int hipError_t;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
};

// ---- the record, and what tests say in advance

static char record[1 << 20];
static size_t recorded;
static int calls;
static int failing_call = -1;
static char failing_name[128];
static int failing_code;
static int devices = 2;
static char arch[64] = "gfx942:sramecc+:xnack-";
static _Thread_local int current;

const char *mock_record(void) { return record; }
void mock_forget(void) { recorded = 0; record[0] = 0; calls = 0; }
void mock_fail_call(int index, int code) { failing_call = index; failing_code = code; }
void mock_fail_function(const char *name, int code) { snprintf(failing_name, sizeof failing_name, "%s", name); failing_code = code; }
// A program whose memory tests don't see leaves its record in a file.
__attribute__((destructor)) static void leave_record(void) {
    const char *path = getenv("TILELIFT_HIP_MOCK_RECORD");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fputs(record, file);
    fclose(file);
}
void mock_devices(int count) { devices = count; }
void mock_arch(const char *name) { snprintf(arch, sizeof arch, "%s", name); }

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof record - recorded;
    int written = vsnprintf(record + recorded, room, format, arguments);
    va_end(arguments);
    if (written > 0 && (size_t)written < room) recorded += (size_t)written;
}

// Ends the line of a call, and says whether it fails.
static hipError_t planned(const char *name) {
    say("\n");
    int fails = calls == failing_call || (failing_name[0] && !strcmp(name, failing_name));
    calls++;
    return fails ? failing_code : SUCCESS;
}

#define CALL(...) \
    say("%s ", __func__); \
    say(__VA_ARGS__); \
    hipError_t plan = planned(__func__)

// ---- what lives

enum kind { MEMORY, MODULE, STREAM, EVENT, KINDS };
static struct { void *at; enum kind kind; size_t bytes; int device; } live[1024];

int mock_live(int kind) {
    int count = 0;
    for (int i = 0; i < 1024; i++) count += live[i].at && (int)live[i].kind == kind;
    return count;
}

static void *born(enum kind kind, size_t bytes) {
    for (int i = 0; i < 1024; i++) {
        if (live[i].at) continue;
        live[i].at = aligned_alloc(256, (bytes + 255) / 256 * 256);
        live[i].kind = kind;
        live[i].bytes = bytes;
        live[i].device = current;
        return live[i].at;
    }
    return NULL;
}

static int find(enum kind kind, const void *at) {
    for (int i = 0; i < 1024; i++) {
        if (at && live[i].at == at && live[i].kind == kind) return i;
    }
    return -1;
}

static hipError_t buried(enum kind kind, void *at, hipError_t plan) {
    int i = find(kind, at);
    if (i < 0) return INVALID_HANDLE;
    free(live[i].at);
    live[i].at = NULL;
    return plan;
}

// Whether so many bytes from there lie in one allocation.
static int inside(const void *at, size_t bytes) {
    for (int i = 0; i < 1024; i++) {
        uintptr_t start = (uintptr_t)live[i].at, a = (uintptr_t)at;
        if (start && live[i].kind == MEMORY && a >= start && bytes <= live[i].bytes && a - start <= live[i].bytes - bytes) return 1;
    }
    return 0;
}

// The device of a stream; of a default stream, the current one.
static int device_of(const void *stream) {
    int i = find(STREAM, stream);
    return (uintptr_t)stream <= 2 ? current : i < 0 ? -1 : live[i].device;
}

// ---- the library

static double clock_ms;

hipError_t hipInit(unsigned int flags) {
    CALL("%u", flags);
    return plan ? plan : devices ? SUCCESS : NO_DEVICE;
}

hipError_t hipDriverGetVersion(int *version) {
    CALL("");
    if (plan) return plan;
    *version = 60342134;
    return SUCCESS;
}

const char *hipGetErrorName(hipError_t code) {
    return code == 2 ? "hipErrorOutOfMemory" : code == INVALID_HANDLE ? "hipErrorInvalidHandle" : NULL;
}

const char *hipGetErrorString(hipError_t code) { return code == 2 ? "out of memory" : NULL; }

hipError_t hipGetDeviceCount(int *count) {
    CALL("");
    if (plan) return plan;
    *count = devices;
    return devices ? SUCCESS : NO_DEVICE;
}

hipError_t hipDeviceGet(int *device, int ordinal) {
    CALL("%d", ordinal);
    if (plan) return plan;
    if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

hipError_t hipDeviceGetName(char *name, int bytes, int device) {
    CALL("%d", device);
    if (plan) return plan;
    snprintf(name, (size_t)bytes, "Mock accelerator %d", device);
    return SUCCESS;
}

hipError_t hipDeviceTotalMem(size_t *bytes, int device) {
    CALL("%d", device);
    if (plan) return plan;
    *bytes = (size_t)192 << 30;
    return SUCCESS;
}

hipError_t hipDeviceGetAttribute(int *value, int attribute, int ordinal) {
    CALL("%d %d", attribute, ordinal);
    if (plan) return plan;
    switch (attribute) {
    case 5: *value = 2100000; return SUCCESS;
    case 19: *value = 4 << 20; return SUCCESS;
    case 63: *value = 304; return SUCCESS;
    case 74: *value = 65536; return SUCCESS;
    case 87: *value = 64; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

hipError_t hipGetDevicePropertiesR0600(void *properties, int ordinal) {
    CALL("%d", ordinal);
    if (plan) return plan;
    memset(properties, 0, 1472);
    snprintf((char *)properties + 1160, 256, "%s", arch);
    return SUCCESS;
}

hipError_t hipGetDeviceProperties(void *properties, int ordinal) {
    CALL("%d", ordinal);
    if (plan) return plan;
    memset(properties, 0, 792);
    snprintf((char *)properties + 396, 256, "%s", arch);
    return SUCCESS;
}

hipError_t hipGetDevice(int *ordinal) {
    CALL("");
    if (plan) return plan;
    *ordinal = current;
    return SUCCESS;
}

hipError_t hipSetDevice(int ordinal) {
    CALL("%d", ordinal);
    if (plan) return plan;
    if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
    current = ordinal;
    return SUCCESS;
}

hipError_t hipModuleLoadData(void **module, const void *image) {
    const unsigned char *bytes = image;
    CALL("%02x%02x%02x%02x device=%d", bytes[0], bytes[1], bytes[2], bytes[3], current);
    if (plan) return plan;
    const void **kept = born(MODULE, sizeof image);
    *kept = image;
    *module = kept;
    return SUCCESS;
}

hipError_t hipModuleUnload(void *module) {
    CALL("");
    return buried(MODULE, module, plan);
}

hipError_t hipModuleGetFunction(void **function, void *module, const char *name) {
    CALL("%s", name);
    if (plan) return plan;
    if (find(MODULE, module) < 0) return INVALID_HANDLE;
    if (!strcmp(name, "absent")) return NOT_FOUND;
    *function = module;
    return SUCCESS;
}

hipError_t hipFuncGetAttribute(int *value, int attribute, void *function) {
    CALL("%d", attribute);
    if (plan) return plan;
    if (find(MODULE, function) < 0) return INVALID_HANDLE;
    *value = attribute == 4 ? 96 : attribute == 3 ? 16 : -1;
    return SUCCESS;
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t dynamic_shared) {
    CALL("%d %zu device=%d", threads, dynamic_shared, current);
    if (plan) return plan;
    if (find(MODULE, function) < 0) return INVALID_HANDLE;
    *blocks = 2;
    return SUCCESS;
}

hipError_t hipModuleLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                 unsigned int bz, unsigned int shared, void *stream, void **params, void **extra) {
    if (params || (uintptr_t)extra[0] != 1 || (uintptr_t)extra[2] != 2 || (uintptr_t)extra[4] != 3) return INVALID_VALUE;
    const unsigned char *bytes = extra[1];
    size_t count = *(const size_t *)extra[3];
    say("%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%#zx device=%d arguments=", __func__, gx, gy, gz, bx, by, bz, shared,
        (size_t)stream, device_of(stream));
    for (size_t i = 0; i < count; i++) say("%02x", bytes[i]);
    hipError_t plan = planned(__func__);
    if (plan) return plan;
    if (find(MODULE, function) < 0 || device_of(stream) < 0) return INVALID_HANDLE;
    // The image is not copied, as AMD's library does not.
    if (memcmp(*(const void **)function, "\177ELF", 4)) return INVALID_IMAGE;
    unsigned char *first = NULL;
    if (count >= sizeof first) memcpy(&first, bytes, sizeof first);
    if (inside(first, 1)) *first = 0x5a;
    clock_ms += 1.0;
    return SUCCESS;
}

hipError_t hipMalloc(void **address, size_t bytes) {
    CALL("%zu device=%d", bytes, current);
    if (plan) return plan;
    *address = born(MEMORY, bytes);
    return SUCCESS;
}

hipError_t hipFree(void *address) {
    CALL("");
    return buried(MEMORY, address, plan);
}

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
    CALL("%zu kind=%d", bytes, kind);
    if (plan) return plan;
    if (!inside(kind == 1 ? to : from, bytes)) return INVALID_VALUE;
    memcpy(to, from, bytes);
    return SUCCESS;
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    CALL("%zu kind=%d device=%d", bytes, kind, device_of(stream));
    if (plan) return plan;
    if (!inside(to, bytes) || !inside(from, bytes) || device_of(stream) < 0) return INVALID_VALUE;
    memmove(to, from, bytes);
    return SUCCESS;
}

hipError_t hipMemset(void *address, int byte, size_t bytes) {
    CALL("%d %zu", byte, bytes);
    if (plan) return plan;
    if (!inside(address, bytes)) return INVALID_VALUE;
    memset(address, byte, bytes);
    return SUCCESS;
}

hipError_t hipStreamCreateWithFlags(void **stream, unsigned int flags) {
    CALL("%u device=%d", flags, current);
    if (plan) return plan;
    *stream = born(STREAM, 1);
    return SUCCESS;
}

hipError_t hipStreamDestroy(void *stream) {
    CALL("");
    return buried(STREAM, stream, plan);
}

hipError_t hipStreamSynchronize(void *stream) {
    CALL("device=%d", device_of(stream));
    if (plan) return plan;
    return device_of(stream) < 0 ? INVALID_HANDLE : SUCCESS;
}

hipError_t hipEventCreateWithFlags(void **event, unsigned int flags) {
    CALL("%u device=%d", flags, current);
    if (plan) return plan;
    *event = born(EVENT, sizeof(double));
    return SUCCESS;
}

hipError_t hipEventDestroy(void *event) {
    CALL("");
    return buried(EVENT, event, plan);
}

hipError_t hipEventRecord(void *event, void *stream) {
    CALL("device=%d", device_of(stream));
    if (plan) return plan;
    if (find(EVENT, event) < 0 || device_of(stream) < 0) return INVALID_HANDLE;
    *(double *)event = clock_ms;
    return SUCCESS;
}

hipError_t hipEventSynchronize(void *event) {
    CALL("");
    if (plan) return plan;
    return find(EVENT, event) < 0 ? INVALID_HANDLE : SUCCESS;
}

hipError_t hipEventElapsedTime(float *milliseconds, void *start, void *stop) {
    CALL("");
    if (plan) return plan;
    if (find(EVENT, start) < 0 || find(EVENT, stop) < 0) return INVALID_HANDLE;
    *milliseconds = (float)(*(double *)stop - *(double *)start);
    return SUCCESS;
}
