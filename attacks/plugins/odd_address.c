/* Refused: it hands over NgKernel at an address that is not aligned */
#define IN_REGISTRATION \
    return api->register_op_definition(host->registry, (const NgKernel *)((char *)&kernel + 1));
#include "honest.h"
