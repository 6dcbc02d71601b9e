/* Refused: it hands over NULL in place of NgDevice */
#define IN_REGISTRATION api->register_device(host->registry, NULL); return NG_OK;
#include "honest.h"
