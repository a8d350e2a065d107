/* tilelift: GPU tile kernels compiled in process. The C interface.
 *
 *     tilelift_error *error = NULL;
 *     tilelift_compiler *compiler = tilelift_compiler_new("sm_90a", NULL, &error);
 *     tilelift_artifact *artifact = tilelift_compile(compiler, text, strlen(text), NULL, &error);
 *     cuModuleLoadData(&module, tilelift_artifact_text(artifact).data);
 *
 *     uint32_t grid[3] = {8, 1, 1};
 *     tilelift_launch *launch = tilelift_launch_new(artifact, grid, arguments, 2, &error);
 *     tilelift_launch_set_pointer(launch, 0, address, len, 0, &error);
 *
 * docs/launch.md says how the launch description (tilelift_artifact_launch) is read. Functions may be called from any thread; a compiler is
 * shared by as many as like; a launch is changed
 * by one at a time. Whatever is made is freed once, by the function of its name; freeing NULL does nothing. Where an error is returned,
 * the result is NULL (0 of a change) and *error is the caller's to free; error itself may be NULL.
 */
#ifndef TILELIFT_H
#define TILELIFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something here changes its meaning or goes, not when something is added. */
#define TILELIFT_ABI_VERSION 1

typedef struct tilelift_compiler tilelift_compiler;
typedef struct tilelift_artifact tilelift_artifact;
typedef struct tilelift_launch tilelift_launch;
typedef struct tilelift_error tilelift_error;

/* Bytes that belong to what they were asked of, and live as long. A zero byte follows them, which is not counted. */
typedef struct tilelift_bytes {
    const char *data;
    size_t len;
} tilelift_bytes;

/* An output that is written in the place of an input: launches pass one view for both. */
typedef struct tilelift_in_place {
    uint32_t output, input;
} tilelift_in_place;

/* A dimension of a view whose extent is that of the others of its group (any number): changing one changes all. */
typedef struct tilelift_same_extent {
    uint32_t group, argument, dim;
} tilelift_same_extent;

/* What a compiler is told. Zeros are the defaults; `size` is sizeof(tilelift_options). */
typedef struct tilelift_options {
    size_t size;
    /* 0: the default. 1: as written, 2: improved, 3: layouts searched, too. */
    uint32_t opt_level;
    uint32_t warps;
    uint32_t stages;
    /* Newest PTX version that the driver takes: 804 is 8.4. */
    uint32_t max_ptx_version;
    uint32_t min_blocks;
    uint32_t max_registers;
    /* Folder of the cache on disk, in UTF-8; NULL: none. It should be the user's own: who may write there may put code into the process. */
    const char *cache_folder;
    /* Bytes that the cache may take. */
    uint64_t cache_bytes;
    /* Of specialised kernels: warpgroups that multiply, and sets of them in ping-pong. */
    uint32_t consumers;
    uint32_t consumer_sets;
    /* Lists of so many entries, or NULL and 0. */
    const tilelift_in_place *in_place;
    size_t in_place_count;
    const tilelift_same_extent *same_extent;
    size_t same_extent_count;
    /* 1: schedules that the compiler writes are proved, too; 0: an author's tasks alone. */
    uint32_t prove_schedules;
} tilelift_options;

/* What a compiler did so far. Times are in nanoseconds, summed over threads. */
typedef struct tilelift_stats {
    uint64_t memory_hits, store_hits, shared, misses, compiles, failures, discarded, store_errors;
    uint64_t compile_time, store_time;
} tilelift_stats;

/* TILELIFT_ABI_VERSION of the library, and its version as text. */
uint32_t tilelift_abi_version(void);
const char *tilelift_version(void);

/* A compiler for a target, such as "sm_90a" or "gfx942". options may be NULL. */
tilelift_compiler *tilelift_compiler_new(const char *target, const tilelift_options *options, tilelift_error **error);
void tilelift_compiler_free(tilelift_compiler *compiler);
/* Zeros for NULL. */
tilelift_stats tilelift_compiler_stats(const tilelift_compiler *compiler);

/* Compiles the kernel of that name of a text (.tile, UTF-8, len bytes); kernel may be NULL where there is only one. */
tilelift_artifact *tilelift_compile(const tilelift_compiler *compiler, const char *text, size_t len, const char *kernel, tilelift_error **error);

/* The same with options of the kernel's own in the place of the compiler's, whose cache it keeps; NULL: the compiler's. */
tilelift_artifact *tilelift_compile_with(const tilelift_compiler *compiler, const tilelift_options *options, const char *text, size_t len,
                                         const char *kernel, tilelift_error **error);

/* An artifact of the bytes that tilelift_artifact_bytes gave, in this or another process. */
tilelift_artifact *tilelift_artifact_read(const char *data, size_t len, tilelift_error **error);
void tilelift_artifact_free(tilelift_artifact *artifact);

/* The text of the target; the code object of an AMD chip, else nothing. Of NULL, data is NULL. */
tilelift_bytes tilelift_artifact_text(const tilelift_artifact *artifact);
tilelift_bytes tilelift_artifact_object(const tilelift_artifact *artifact);
/* Name of the entry; how it is launched, as JSON; the schedule as .tile text, if it has one; the key, as 64 digits; all of it as bytes. */
tilelift_bytes tilelift_artifact_entry(const tilelift_artifact *artifact);
tilelift_bytes tilelift_artifact_launch(const tilelift_artifact *artifact);
tilelift_bytes tilelift_artifact_schedule(const tilelift_artifact *artifact);
tilelift_bytes tilelift_artifact_key(const tilelift_artifact *artifact);
tilelift_bytes tilelift_artifact_bytes(const tilelift_artifact *artifact);
/* Threads of a block, along x; bytes of its shared memory. */
uint32_t tilelift_artifact_threads(const tilelift_artifact *artifact);
uint32_t tilelift_artifact_shared_bytes(const tilelift_artifact *artifact);

/* What an argument of a launch is. */
#define TILELIFT_VIEW 0
#define TILELIFT_INT 1
#define TILELIFT_FLOAT 2

/* An argument of a launch, of the kernel's own element type. Of a view: `len` bytes of device memory at `address` that are lent for it, where in
 * them it begins, its `rank` extents, outermost first, and its strides in elements, NULL if it is dense. Of a number: `integer` or `real`. */
typedef struct tilelift_argument {
    uint32_t kind;
    uint32_t rank;
    uint64_t address, len, offset;
    const int64_t *extents;
    const int64_t *strides;
    int64_t integer;
    double real;
} tilelift_argument;

/* What a launch parameter is. */
#define TILELIFT_NUMBER 0
#define TILELIFT_TENSOR_MAP 1

/* A launch parameter of `size` bytes. A number is in the first bytes of `value`: kernelParams of cuLaunchKernel may lead there. A tensor map is what
 * cuTensorMapEncodeTiled makes of the other fields, dimensions innermost first, in 128 bytes at a multiple of 128 of the host's own. */
typedef struct tilelift_parameter {
    uint64_t value;
    uint32_t kind, size;
    uint64_t address;
    uint32_t data_type, rank, interleave, swizzle, l2_promotion, oob_fill;
    uint64_t extents[5];
    uint64_t strides[4];
    uint32_t box_extents[5];
    uint32_t element_strides[5];
} tilelift_parameter;

/* A launch of the artifact's kernel on a grid, with `count` arguments: everything is checked once, the memory that is lent by its addresses. The
 * artifact may be freed before the launch. A grid with a 0 in it is no work and no error, and needs no memory. */
tilelift_launch *tilelift_launch_new(const tilelift_artifact *artifact, const uint32_t grid[3], const tilelift_argument *arguments, size_t count,
                                     tilelift_error **error);
void tilelift_launch_free(tilelift_launch *launch);

/* One thing is changed and checked: 1, or 0 and nothing is changed. A view keeps its extents and strides when its memory is exchanged; a dense view
 * stays dense when an extent is. Numbers become the parameter's type. */
int tilelift_launch_set_pointer(tilelift_launch *launch, uint32_t argument, uint64_t address, uint64_t len, uint64_t offset, tilelift_error **error);
int tilelift_launch_set_int(tilelift_launch *launch, uint32_t argument, int64_t value, tilelift_error **error);
int tilelift_launch_set_float(tilelift_launch *launch, uint32_t argument, double value, tilelift_error **error);
int tilelift_launch_set_extent(tilelift_launch *launch, uint32_t argument, uint32_t dim, int64_t extent, tilelift_error **error);
int tilelift_launch_set_grid(tilelift_launch *launch, const uint32_t grid[3], tilelift_error **error);

/* The blocks to launch, where so many run at once (one a multiprocessor; it matters only where blocks take several positions of the grid).
 * 0 and zeros if there is nothing to launch. */
int tilelift_launch_blocks(const tilelift_launch *launch, uint32_t at_once, uint32_t blocks[3]);
/* The launch parameters in order, until the launch is changed or freed; NULL and 0 if there is nothing to launch. */
const tilelift_parameter *tilelift_launch_parameters(const tilelift_launch *launch, size_t *count);
/* The same as one buffer, as HIP takes it (HIP_LAUNCH_PARAM_BUFFER_POINTER); nothing where there are tensor maps. */
tilelift_bytes tilelift_launch_buffer(const tilelift_launch *launch);

/* A stable code of five characters, what is wrong, and what to do about it. The line and column of a text, from 1; 0 where there is none. */
const char *tilelift_error_code(const tilelift_error *error);
const char *tilelift_error_message(const tilelift_error *error);
const char *tilelift_error_remedy(const tilelift_error *error);
uint32_t tilelift_error_line(const tilelift_error *error);
uint32_t tilelift_error_column(const tilelift_error *error);
void tilelift_error_free(tilelift_error *error);

#ifdef __cplusplus
}
#endif

#endif
