/* A host in C: compiles for a chip of each maker, reads what it made, and sees its mistakes named. Exits with the line of what is wrong. */
#include "tilelift.h"
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

int main(int argc, char **argv) {
    WANT(argc == 2);
    WANT(tilelift_abi_version() == TILELIFT_ABI_VERSION && strchr(tilelift_version(), '.') != NULL);
    WANT(target("sm_80", 0, argv[1]) == 0 && target("sm_90a", 0, argv[1]) == 0 && target("gfx942", 1, argv[1]) == 0);

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
