/* A host in C: compiles for a chip of each maker, reads what it made, and sees its mistakes named. Exits with the line of what is wrong. */
#include "tilelift.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WANT(what)                                                                   \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                       \
            return 1;                                                                \
        }                                                                            \
    } while (0)

static const char *const SCALE = "kernel @scale(v0: view<f32, [?%4]>, v1: f32) {\n"
                                 "    v2 = program_id x\n"
                                 "    v3 = mul v2, 1024\n"
                                 "    v4 = load v0[v3] : tile<1024xf32>\n"
                                 "    v5 = splat v1 : tile<1024xf32>\n"
                                 "    v6 = mul v4, v5\n"
                                 "    store v0[v3], v6\n"
                                 "}\n";

static int target(const char *name, int object, const char *cache) {
    tilelift_error *error = NULL;
    tilelift_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cache_folder = cache;
    for (int round = 0; round < 2; round++) {
        tilelift_compiler *compiler = tilelift_compiler_new(name, &options, &error);
        WANT(compiler != NULL && error == NULL);
        tilelift_artifact *artifact = tilelift_compile(compiler, SCALE, strlen(SCALE), NULL, &error);
        WANT(artifact != NULL && error == NULL);
        tilelift_bytes text = tilelift_artifact_text(artifact);
        WANT(text.len > 100 && strlen(text.data) == text.len && strstr(text.data, "scale") != NULL);
        WANT((tilelift_artifact_object(artifact).len > 0) == object);
        WANT(strcmp(tilelift_artifact_entry(artifact).data, "scale") == 0);
        WANT(strstr(tilelift_artifact_launch(artifact).data, "\"kernels\": [") != NULL);
        WANT(tilelift_artifact_key(artifact).len == 64);
        WANT(tilelift_artifact_threads(artifact) > 0);
        WANT(tilelift_artifact_shared_bytes(artifact) == 0 && tilelift_artifact_schedule(artifact).len == 0);
        tilelift_stats stats = tilelift_compiler_stats(compiler);
        WANT(stats.compiles == (round == 0) && stats.store_hits == (round == 1) && stats.store_errors == 0);
        /* Written down and read again. */
        tilelift_bytes bytes = tilelift_artifact_bytes(artifact);
        tilelift_artifact *again = tilelift_artifact_read(bytes.data, bytes.len, &error);
        WANT(again != NULL && strcmp(tilelift_artifact_text(again).data, text.data) == 0);
        WANT(tilelift_artifact_read(bytes.data, bytes.len - 1, &error) == NULL);
        WANT(strcmp(tilelift_error_code(error), "C0303") == 0);
        tilelift_error_free(error);
        error = NULL;
        /* What was made outlives who made it. */
        tilelift_compiler_free(compiler);
        WANT(strlen(text.data) == text.len);
        tilelift_artifact_free(again);
        tilelift_artifact_free(artifact);
    }
    return 0;
}

/* Launches: bound, changed, and refused. Addresses are those of a device that nobody has. */
static const char *const ADD = "kernel @add(v0: view<f32, [?%4]>, v1: view<f32, [?%4]>, v2: f32, v3: i32) {\n"
                               "    v4 = program_id x\n"
                               "    v5 = mul v4, 128\n"
                               "    v6 = load v0[v5] : tile<128xf32>\n"
                               "    v7 = splat v2 : tile<128xf32>\n"
                               "    v8 = splat v3 : tile<128xi32>\n"
                               "    v9 = cast v8 : tile<128xf32>\n"
                               "    v10 = fma v6, v7, v9\n"
                               "    store v1[v5], v10\n"
                               "}\n";

/* How many parameters are numbers of this value and size. */
static int numbers(const tilelift_launch *launch, uint64_t value, uint32_t size) {
    size_t count = 0;
    int found = 0;
    const tilelift_parameter *p = tilelift_launch_parameters(launch, &count);
    for (size_t n = 0; n < count; n++) {
        uint64_t bits = 0;
        memcpy(&bits, &p[n].value, p[n].size);
        found += p[n].kind == TILELIFT_NUMBER && p[n].size == size && bits == value;
    }
    return found;
}

#define REFUSED(call, wanted)                                                        \
    do {                                                                             \
        WANT((call) == 0 && strcmp(tilelift_error_code(error), wanted) == 0);        \
        WANT(strlen(tilelift_error_message(error)) > 10 && strlen(tilelift_error_remedy(error)) > 10); \
        tilelift_error_free(error);                                                  \
        error = NULL;                                                                \
    } while (0)

static int launches(const char *target) {
    tilelift_error *error = NULL;
    tilelift_compiler *compiler = tilelift_compiler_new(target, NULL, &error);
    WANT(compiler != NULL);
    tilelift_artifact *artifact = tilelift_compile(compiler, ADD, strlen(ADD), NULL, &error);
    WANT(artifact != NULL);
    tilelift_compiler_free(compiler);
    const uint32_t grid[3] = {8, 1, 1}, empty[3] = {0, 1, 1}, large[3] = {1, 1, 65536};
    const int64_t extents[1] = {1000}, odd[1] = {1001}, strides[1] = {2};
    tilelift_argument a[4];
    memset(a, 0, sizeof a);
    for (int n = 0; n < 2; n++) {
        a[n].rank = 1;
        a[n].address = 0x10000u * (n + 1u);
        a[n].len = 4096;
        a[n].extents = extents;
    }
    a[2].kind = TILELIFT_FLOAT;
    a[2].real = 2.0;
    a[3].kind = TILELIFT_INT;
    a[3].integer = -5;
    /* What is wrong has its code. */
    REFUSED(tilelift_launch_new(artifact, large, a, 4, &error) != NULL, "B0101");
    REFUSED(tilelift_launch_new(artifact, grid, a, 3, &error) != NULL, "C0304");
    REFUSED(tilelift_launch_new(artifact, grid, NULL, 4, &error) != NULL, "C0301");
    REFUSED(tilelift_launch_new(artifact, NULL, a, 4, &error) != NULL, "C0301");
    REFUSED(tilelift_launch_new(NULL, grid, a, 4, &error) != NULL, "C0301");
    tilelift_argument kept = a[0];
    a[0].extents = odd;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "B0202");
    a[0].extents = NULL;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "C0301");
    a[0] = kept;
    a[0].strides = strides;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "B0202");
    a[0] = kept;
    a[0].kind = TILELIFT_INT;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "B0201");
    a[0].kind = 9;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "C0304");
    a[0] = kept;
    a[0].len = 3996;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "B0203");
    a[0] = kept;
    a[0].address = a[1].address;
    REFUSED(tilelift_launch_new(artifact, grid, a, 4, &error) != NULL, "B0204");
    a[0] = kept;

    tilelift_launch *launch = tilelift_launch_new(artifact, grid, a, 4, &error);
    WANT(launch != NULL && error == NULL);
    tilelift_artifact_free(artifact);
    uint32_t blocks[3];
    WANT(tilelift_launch_blocks(launch, 108, blocks) == 1 && blocks[0] == 8 && blocks[1] == 1 && blocks[2] == 1);
    /* Two addresses, two extents, 2.0 and -5; the buffer holds the same. */
    size_t count = 0;
    WANT(tilelift_launch_parameters(launch, &count) != NULL && count == 6 && tilelift_launch_buffer(launch).len >= 32);
    WANT(numbers(launch, 0x10000, 8) == 1 && numbers(launch, 0x20000, 8) == 1 && numbers(launch, 1000, 4) == 2);
    WANT(numbers(launch, 0x40000000, 4) == 1 && numbers(launch, 0xfffffffb, 4) == 1);
    /* Changes of one thing. */
    WANT(tilelift_launch_set_pointer(launch, 0, 0x30000, 8192, 16, &error) == 1 && error == NULL);
    WANT(numbers(launch, 0x30010, 8) == 1 && numbers(launch, 0x10000, 8) == 0);
    WANT(tilelift_launch_set_extent(launch, 1, 0, 996, NULL) == 1 && numbers(launch, 996, 4) == 1);
    WANT(tilelift_launch_set_float(launch, 2, 0.5, NULL) == 1 && numbers(launch, 0x3f000000, 4) == 1);
    WANT(tilelift_launch_set_int(launch, 3, 7, NULL) == 1 && numbers(launch, 7, 4) == 1);
    const uint32_t two[3] = {2, 1, 1};
    WANT(tilelift_launch_set_grid(launch, two, NULL) == 1 && tilelift_launch_blocks(launch, 1, blocks) == 1 && blocks[0] == 2);
    /* What is wrong changes nothing. */
    REFUSED(tilelift_launch_set_pointer(launch, 0, 0x20000, 8192, 0, &error), "B0204");
    REFUSED(tilelift_launch_set_pointer(launch, 0, 0x40004, 8192, 0, &error), "B0202");
    REFUSED(tilelift_launch_set_pointer(launch, 2, 0x40000, 8192, 0, &error), "B0201");
    REFUSED(tilelift_launch_set_extent(launch, 0, 0, 4000, &error), "B0203");
    REFUSED(tilelift_launch_set_extent(launch, 0, 7, 4, &error), "B0201");
    REFUSED(tilelift_launch_set_int(launch, 0, 4, &error), "B0201");
    REFUSED(tilelift_launch_set_float(launch, 9, 4.0, &error), "C0304");
    REFUSED(tilelift_launch_set_grid(launch, large, &error), "B0101");
    REFUSED(tilelift_launch_set_grid(launch, NULL, &error), "C0301");
    REFUSED(tilelift_launch_set_grid(NULL, grid, &error), "C0301");
    WANT(numbers(launch, 0x30010, 8) == 1 && numbers(launch, 996, 4) == 1 && numbers(launch, 1000, 4) == 1);
    /* A batch without rows: nothing to launch, nothing wrong. */
    WANT(tilelift_launch_set_grid(launch, empty, &error) == 1 && tilelift_launch_blocks(launch, 108, blocks) == 0 && blocks[1] == 0);
    WANT(tilelift_launch_parameters(launch, &count) == NULL && count == 0 && tilelift_launch_buffer(launch).len == 0);
    tilelift_launch_free(launch);
    tilelift_launch_free(NULL);
    WANT(tilelift_launch_parameters(NULL, NULL) == NULL && tilelift_launch_buffer(NULL).data == NULL && tilelift_launch_blocks(NULL, 1, NULL) == 0);
    return 0;
}

/* Options of one kernel: its own warps and key, extents that change together, an output in the place of an input. */
static int own_options(void) {
    tilelift_error *error = NULL;
    tilelift_compiler *compiler = tilelift_compiler_new("sm_80", NULL, &error);
    const tilelift_same_extent same[2] = {{7, 0, 0}, {7, 1, 0}};
    const tilelift_in_place placed[1] = {{1, 0}};
    tilelift_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.warps = 4;
    options.same_extent = same;
    options.same_extent_count = 2;
    options.in_place = placed;
    options.in_place_count = 1;
    tilelift_artifact *plain = tilelift_compile(compiler, ADD, strlen(ADD), NULL, &error);
    tilelift_artifact *own = tilelift_compile_with(compiler, &options, ADD, strlen(ADD), NULL, &error);
    tilelift_artifact *usual = tilelift_compile_with(compiler, NULL, ADD, strlen(ADD), NULL, &error);
    WANT(plain != NULL && own != NULL && usual != NULL && tilelift_artifact_threads(own) == 128);
    WANT(strcmp(tilelift_artifact_key(plain).data, tilelift_artifact_key(own).data) != 0);
    WANT(strcmp(tilelift_artifact_key(plain).data, tilelift_artifact_key(usual).data) == 0);
    WANT(strstr(tilelift_artifact_launch(own).data, "\"same_as\": 0") != NULL);
    const uint32_t grid[3] = {8, 1, 1};
    const int64_t extents[1] = {1000};
    tilelift_argument a[4];
    memset(a, 0, sizeof a);
    a[2].kind = TILELIFT_FLOAT;
    a[3].kind = TILELIFT_INT;
    for (int n = 0; n < 2; n++) {
        a[n].rank = 1;
        a[n].address = 0x10000;
        a[n].len = 4096;
        a[n].extents = extents;
    }
    tilelift_launch *launch = tilelift_launch_new(own, grid, a, 4, &error);
    WANT(launch != NULL && numbers(launch, 0x10000, 8) >= 1);
    WANT(tilelift_launch_set_extent(launch, 1, 0, 512, &error) == 1 && numbers(launch, 1000, 4) == 0 && numbers(launch, 512, 4) >= 1);
    tilelift_launch_free(launch);
    a[1].address = 0x20000;
    REFUSED(tilelift_launch_new(own, grid, a, 4, &error) != NULL, "B0204");
    /* A caller that knows less: what it has behind its own fields is not read. */
    options.size = offsetof(tilelift_options, consumers);
    options.consumers = 0xffffffff;
    tilelift_artifact *older = tilelift_compile_with(compiler, &options, ADD, strlen(ADD), NULL, &error);
    WANT(older != NULL && strstr(tilelift_artifact_launch(older).data, "same_as") == NULL && tilelift_artifact_threads(older) == 128);
    options.size = sizeof options;
    options.in_place = NULL;
    REFUSED(tilelift_compile_with(compiler, &options, ADD, strlen(ADD), NULL, &error) != NULL, "C0301");
    const tilelift_in_place wrong[1] = {{9, 0}};
    options.in_place = wrong;
    options.consumers = 0;
    REFUSED(tilelift_compile_with(compiler, &options, ADD, strlen(ADD), NULL, &error) != NULL, "C0103");
    WANT(tilelift_compiler_stats(compiler).compiles == 3);
    tilelift_artifact_free(plain);
    tilelift_artifact_free(own);
    tilelift_artifact_free(usual);
    tilelift_artifact_free(older);
    tilelift_compiler_free(compiler);
    return 0;
}

/* A product of warpgroups: its tensor maps follow the pointer. */
static const char *const PRODUCT = "kernel @product(v0: view<f16, [?%64, ?%64]>, v1: view<f16, [?%64, ?%64]>, v2: view<f32, [?%64, ?%64]>) {\n"
                                   "    v3 = program_id x\n"
                                   "    v4 = mul v3, 128\n"
                                   "    v5 = splat 0.0 : tile<128x128xf32>\n"
                                   "    v6 = dim v0, 1\n"
                                   "    v7 = for v8 in 0..v6 step 64 carry v9 = v5 {\n"
                                   "        v10 = load v0[v4, v8] : tile<128x64xf16>\n"
                                   "        v11 = load v1[v8, 0] : tile<64x128xf16>\n"
                                   "        v12 = dot v10, v11, v9\n"
                                   "        yield v12\n"
                                   "    }\n"
                                   "    store v2[v4, 0], v7\n"
                                   "}\n";

static int maps(void) {
    tilelift_compiler *compiler = tilelift_compiler_new("sm_90a", NULL, NULL);
    tilelift_artifact *artifact = tilelift_compile(compiler, PRODUCT, strlen(PRODUCT), NULL, NULL);
    WANT(artifact != NULL);
    const uint32_t grid[3] = {4, 1, 1};
    const int64_t left[2] = {512, 256}, right[2] = {256, 128}, out[2] = {512, 128};
    tilelift_argument a[3];
    memset(a, 0, sizeof a);
    const int64_t *extents[3] = {left, right, out};
    for (int n = 0; n < 3; n++) {
        a[n].rank = 2;
        a[n].address = 0x100000u * (n + 1u);
        a[n].len = 0x80000;
        a[n].extents = extents[n];
    }
    tilelift_launch *launch = tilelift_launch_new(artifact, grid, a, 3, NULL);
    WANT(launch != NULL);
    for (int round = 0; round < 2; round++) {
        uint64_t address = round == 0 ? 0x100000 : 0x800400;
        size_t count = 0;
        int found = 0;
        const tilelift_parameter *p = tilelift_launch_parameters(launch, &count);
        for (size_t n = 0; n < count; n++) {
            if (p[n].kind == TILELIFT_TENSOR_MAP && p[n].address == address) {
                WANT(p[n].size == 128 && p[n].rank == 2 && p[n].data_type == 6 && p[n].element_strides[1] == 1);
                WANT(p[n].extents[0] == 256 && p[n].extents[1] == 512 && p[n].strides[0] == 512 && p[n].box_extents[0] > 0);
                found++;
            }
        }
        WANT(found == 1 && tilelift_launch_buffer(launch).len == 0);
        WANT(tilelift_launch_set_pointer(launch, 0, 0x800000, 0x80000, 0x400, NULL) == 1);
    }
    tilelift_launch_free(launch);
    tilelift_artifact_free(artifact);
    tilelift_compiler_free(compiler);
    return 0;
}

int main(int argc, char **argv) {
    WANT(argc == 2);
    WANT(tilelift_abi_version() == TILELIFT_ABI_VERSION && strchr(tilelift_version(), '.') != NULL);
    WANT(target("sm_80", 0, argv[1]) == 0 && target("sm_90a", 0, argv[1]) == 0 && target("gfx942", 1, argv[1]) == 0);
    WANT(launches("sm_80") == 0 && launches("gfx942") == 0 && maps() == 0 && own_options() == 0);

    tilelift_error *error = NULL;
    WANT(tilelift_compiler_new("sm_1", NULL, &error) == NULL && strcmp(tilelift_error_code(error), "C0101") == 0);
    WANT(strstr(tilelift_error_remedy(error), "sm_90a") != NULL);
    tilelift_error_free(error);
    WANT(tilelift_compiler_new(NULL, NULL, &error) == NULL && strcmp(tilelift_error_code(error), "C0301") == 0);
    tilelift_error_free(error);
    tilelift_options small = {.size = 8};
    WANT(tilelift_compiler_new("sm_80", &small, &error) == NULL && strcmp(tilelift_error_code(error), "C0302") == 0);
    tilelift_error_free(error);

    tilelift_compiler *compiler = tilelift_compiler_new("sm_80", NULL, NULL);
    WANT(compiler != NULL);
    const char *wrong = "kernel @a(v0: f32) {\n    v1 = add v0, v9\n}\n";
    WANT(tilelift_compile(compiler, wrong, strlen(wrong), NULL, &error) == NULL);
    WANT(tilelift_error_code(error)[0] == 'P' && tilelift_error_line(error) == 2 && tilelift_error_column(error) > 5);
    WANT(strlen(tilelift_error_message(error)) > 20);
    tilelift_error_free(error);
    WANT(tilelift_compile(compiler, SCALE, strlen(SCALE), "other", &error) == NULL && strstr(tilelift_error_message(error), "other") != NULL);
    tilelift_error_free(error);
    WANT(tilelift_compile(compiler, "\xff\xfe", 2, NULL, &error) == NULL && strcmp(tilelift_error_code(error), "C0301") == 0);
    tilelift_error_free(error);
    /* Nobody asks why. */
    WANT(tilelift_compile(compiler, NULL, 3, NULL, NULL) == NULL && tilelift_compile(NULL, SCALE, 1, NULL, NULL) == NULL);
    WANT(tilelift_compile(compiler, NULL, 0, NULL, NULL) == NULL);
    tilelift_compiler_free(compiler);
    /* Nothing of nothing. */
    tilelift_compiler_free(NULL);
    tilelift_artifact_free(NULL);
    tilelift_error_free(NULL);
    WANT(tilelift_artifact_text(NULL).data == NULL && tilelift_error_code(NULL) == NULL && tilelift_compiler_stats(NULL).compiles == 0);
    puts("right");
    return 0;
}
