/* Refused: it fails: error code 1: it gives no reason */
#define IN_RUN return NG_FAILED;
#include "honest.h"
