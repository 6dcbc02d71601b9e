/*
 * A plug-in for neargraph: sums and means over the neighbours of each node.
 *
 * It registers a device "c-example" with priority 50 and kernels of two operations for it:
 * SpMM_Sum and SpMM_Mean take edges and rows, and a weight for each edge, which may be missing.
 * docs/reference/plugin-abi.md explains each step.
 */
#include "ng_plugin.h"

#include <stdio.h>
#include <string.h>

#define TEXT(literal) {(literal), sizeof(literal) - 1}

/* Puts a text where the host looks for it. */
static int32_t failed(NgError *error, int32_t code, const char *text) {
    uint64_t len = strlen(text);
    if (len > error->capacity) len = error->capacity;
    memcpy(error->data, text, len);
    error->len = len;
    return code;
}

/* One counter for each node: see `run`. */
static int32_t query(void *state, const NgCall *call, uint64_t *scratch_bytes) {
    (void)state;
    const NgView *edges = call->inputs[0], *rows = call->inputs[1];
    /* Rows that do not lie one behind the other are left to another device. */
    if (rows->rank != 2 || rows->strides[1] != 1 || edges->strides[1] != 1) return NG_NOT_SERVED;
    *scratch_bytes = (uint64_t)rows->dims[0] * sizeof(uint32_t);
    return NG_OK;
}

/* `state` says whether the sum is divided by how many rows were added. */
static int32_t run(void *state, const NgCall *call) {
    const NgView *edges = call->inputs[0], *rows = call->inputs[1];
    const int64_t nodes = rows->dims[0], width = rows->dims[1], count = edges->dims[1];
    const int64_t *sources = edges->data, *destinations = sources + edges->strides[0];
    const float *from = rows->data;
    const float *weights = call->input_count > 2 ? call->inputs[2]->data : NULL;
    float *to = call->outputs[0]->data;
    uint32_t *counts = call->scratch;

    /* What outputs and scratch memory hold before has no meaning. */
    for (int64_t i = 0; i < nodes * width; i++) to[i] = 0;
    for (int64_t node = 0; node < nodes; node++) counts[node] = 0;
    for (int64_t edge = 0; edge < count; edge++) {
        const int64_t source = sources[edge], destination = destinations[edge];
        /* Models and batches may be wrong, so every index is checked before it is used. Where rows
         * have no columns, nothing is read and nothing can be out of range. */
        if (width > 0 && (source < 0 || source >= nodes || destination < 0 || destination >= nodes)) {
            char text[96];
            snprintf(text, sizeof text, "edge %lld leads from or to a node that does not exist",
                     (long long)edge);
            return failed(call->error, NG_MISFIT, text);
        }
        if (width == 0) break;
        const float weight = weights ? weights[edge] : 1;
        const float *row = from + source * rows->strides[0];
        float *sum = to + destination * width;
        for (int64_t column = 0; column < width; column++) sum[column] += weight * row[column];
        counts[destination]++;
    }
    if (state != NULL) {
        for (int64_t node = 0; node < nodes; node++)
            for (int64_t column = 0; counts[node] > 1 && column < width; column++)
                to[node * width + column] /= (float)counts[node];
    }
    return NG_OK;
}

static int is_mean;

int32_t ng_plugin_v1(const NgHost *host, NgPlugin *plugin) {
    const NgApi *api = host->get_api(NG_API_VERSION);
    if (api == NULL) return failed(host->error, NG_FAILED, "needs version 1 of the interface");
    plugin->api_version = NG_API_VERSION;
    plugin->name = (NgText)TEXT("aggregate");
    plugin->version = (NgText)TEXT("1.0");

    const NgDevice device = {
        .struct_size = sizeof device,
        .name = TEXT("c-example"),
        .priority = 50,
    };
    int32_t result = api->register_device(host->registry, &device);
    if (result != NG_OK) return result;

    NgKernel kernel = {
        .struct_size = sizeof kernel,
        .op = TEXT("SpMM_Sum"),
        .device = TEXT("c-example"),
        .traits = NG_TRAIT_THREAD_SAFE | NG_TRAIT_DETERMINISTIC,
        .dtypes = 1u << NG_F32 | 1u << NG_I64,
        .alignment = 1,
        .state = NULL,
        .query = query,
        .run = run,
    };
    result = api->register_op_definition(host->registry, &kernel);
    if (result != NG_OK) return result;
    kernel.op = (NgText)TEXT("SpMM_Mean");
    kernel.state = &is_mean;
    return api->register_op_definition(host->registry, &kernel);
}
