/* Refused: it accepts tensors that do not fit the operation: while Degree runs on unfitting */
#define OP "Degree"
#define DTYPES (1u << NG_I64)
#define OWN_RUN
#include "ng_plugin.h"

static int32_t run(void *state, const NgCall *call) {
    (void)state;
    const int64_t *index = call->inputs[0]->data;
    float *y = call->outputs[0]->data;
    int64_t nodes = call->outputs[0]->dims[0];
    for (int64_t i = 0; i < nodes; i++) y[i] = 0;
    for (int64_t i = 0; i < call->inputs[0]->dims[0]; i++)
        if (index[i] < nodes) y[index[i]] += 1;
    return NG_OK;
}

#include "honest.h"
