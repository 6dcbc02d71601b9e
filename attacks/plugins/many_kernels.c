/* Refused: it registers more than 1024 kernels */
#include <stdio.h>
#define IN_REGISTRATION \
    for (int i = 0; i < 2000; i++) { \
        char name[32]; \
        device.name.data = name, device.name.len = sprintf(name, "chip %d", i); \
        kernel.device = device.name; \
        api->register_device(host->registry, &device); \
        api->register_op_definition(host->registry, &kernel); \
    }
#include "honest.h"
