/* Refused: it passes NgKernel at an unaligned address */
#define IN_REGISTRATION \
    return api->register_op_definition(host->registry, (const NgKernel *)((char *)&kernel + 1));
#include "honest.h"
