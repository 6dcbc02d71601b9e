/* Refused: NgKernel sets fields that this version does not have */
#define CHANGE_KERNEL \
    struct {NgKernel known; uint64_t later;} newer = {kernel, 1}; \
    newer.known.struct_size = sizeof newer; \
    api->register_device(host->registry, &device); \
    return api->register_op_definition(host->registry, &newer.known);
#include "honest.h"
