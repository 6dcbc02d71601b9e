/* Refused: it registers different kernels than in its trial */
/* Tells its trial by the limit of the size of files. */
#include <sys/resource.h>
#define IN_REGISTRATION \
    struct rlimit files; \
    getrlimit(RLIMIT_FSIZE, &files); \
    if (files.rlim_max != 0) { \
        NgKernel more = kernel; \
        more.op = (NgText)TEXT("Tanh"); \
        api->register_device(host->registry, &device); \
        api->register_op_definition(host->registry, &more); \
    }
#include "honest.h"
