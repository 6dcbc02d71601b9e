/* Refused: it passes NULL instead of NgDevice */
#define IN_REGISTRATION api->register_device(host->registry, NULL); return NG_OK;
#include "honest.h"
