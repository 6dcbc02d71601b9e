/*
 * A plug-in with a right kernel of Relu, part by part replaceable: an attack defines the macro of a
 * part before it includes this file, and everything else stays as it should be.
 */
#include "ng_plugin.h"

#include <string.h>

#define TEXT(literal) {(literal), sizeof(literal) - 1}

#ifndef API_VERSION
#define API_VERSION NG_API_VERSION
#endif
#ifndef OP
#define OP "Relu"
#endif
#ifndef DTYPES
#define DTYPES (1u << NG_F32)
#endif
#ifndef TRAITS
#define TRAITS (NG_TRAIT_THREAD_SAFE | NG_TRAIT_DETERMINISTIC)
#endif
#ifndef SCRATCH_BYTES
#define SCRATCH_BYTES 0
#endif
/* Statements, with what `run`, `query` and `ng_plugin_v1` are given in sight. */
#ifndef IN_RUN
#define IN_RUN
#endif
#ifndef AFTER_RUN
#define AFTER_RUN
#endif
#ifndef IN_QUERY
#define IN_QUERY
#endif
#ifndef IN_REGISTRATION
#define IN_REGISTRATION
#endif
#ifndef CHANGE_KERNEL
#define CHANGE_KERNEL
#endif
#ifndef VALUE
#define VALUE(x) ((x) < 0 ? 0 : (x))
#endif

static int32_t query(void *state, const NgCall *call, uint64_t *scratch_bytes) {
    (void)state, (void)call;
    *scratch_bytes = SCRATCH_BYTES;
    IN_QUERY
    return NG_OK;
}

#ifndef OWN_RUN
static int64_t count_of(const NgView *view) {
    int64_t count = 1;
    for (uint32_t axis = 0; axis < view->rank; axis++) count *= view->dims[axis];
    return count;
}

static int32_t run(void *state, const NgCall *call) {
    (void)state;
    const float *x = call->inputs[0]->data;
    float *y = call->outputs[0]->data;
    int64_t n = count_of(call->inputs[0]);
    (void)x, (void)y, (void)n;
    IN_RUN
    for (int64_t i = 0; i < n; i++) y[i] = VALUE(x[i]);
    AFTER_RUN
    return NG_OK;
}
#endif

int32_t ng_plugin_v1(const NgHost *host, NgPlugin *plugin) {
    const NgApi *api = host->get_api(NG_API_VERSION);
    if (api == NULL) return NG_FAILED;
    plugin->api_version = API_VERSION;
    plugin->name = (NgText)TEXT("attack");
    plugin->version = (NgText)TEXT("1");
    NgDevice device = {.struct_size = sizeof device, .name = TEXT("bad chip"), .priority = 100};
    NgKernel kernel = {
        .struct_size = sizeof kernel,
        .op = TEXT(OP),
        .device = TEXT("bad chip"),
        .traits = TRAITS,
        .dtypes = DTYPES,
        .alignment = 4,
        .query = query,
        .run = run,
    };
    CHANGE_KERNEL
    IN_REGISTRATION
    if (api->register_device(host->registry, &device) != NG_OK) return NG_FAILED;
    return api->register_op_definition(host->registry, &kernel);
}
