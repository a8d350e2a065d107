/* tilelift: GPU tile kernels compiled in process. The C interface.
 *
 *     tilelift_error *error = NULL;
 *     tilelift_compiler *compiler = tilelift_compiler_new("sm_90a", NULL, &error);
 *     tilelift_artifact *artifact = tilelift_compile(compiler, text, strlen(text), NULL, &error);
 *     cuModuleLoadData(&module, tilelift_artifact_text(artifact).data);
 *
 * docs/launch.md says how the launch description (tilelift_artifact_launch) is read. Functions may be called from any thread; a compiler is
 * shared by as many as like. Whatever is made is freed once, by the function of its name; freeing NULL does nothing. Where an error is returned,
 * the result is NULL and *error is the caller's to free; error itself may be NULL.
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
typedef struct tilelift_error tilelift_error;

/* Bytes that belong to what they were asked of, and live as long. A zero byte follows them, which is not counted. */
typedef struct tilelift_bytes {
    const char *data;
    size_t len;
} tilelift_bytes;

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
