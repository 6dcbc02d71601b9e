/* Refused: it registers no kernel */
#define IN_REGISTRATION return NG_OK;
#include "honest.h"
