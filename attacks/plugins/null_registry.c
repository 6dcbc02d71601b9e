/* Refused: it does not register any kernels */
#define IN_REGISTRATION api->register_device(NULL, &device); return NG_OK;
#include "honest.h"
