/* Refused: it reads or writes past the end of output 0: while Degree runs on unfitting */
#define OP "Degree"
#define DTYPES (1u << NG_I64)
#define OWN_RUN
#include "ng_plugin.h"

static int32_t run(void *state, const NgCall *call) {
    (void)state;
    const int64_t *index = call->inputs[0]->data;
    float *y = call->outputs[0]->data;
    for (int64_t i = 0; i < call->outputs[0]->dims[0]; i++) y[i] = 0;
    for (int64_t i = 0; i < call->inputs[0]->dims[0]; i++) y[index[i]] += 1;
    return NG_OK;
}

#include "honest.h"
