/* Refused: it registers no kernel */
#define IN_REGISTRATION api->register_device(NULL, &device); return NG_OK;
#include "honest.h"
