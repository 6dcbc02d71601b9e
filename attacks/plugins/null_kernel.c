/* Refused: it passes NULL instead of NgKernel */
#define IN_REGISTRATION api->register_op_definition(host->registry, NULL); return NG_OK;
#include "honest.h"
