/* Refused: it fails: error code -77: it gives no reason */
#define IN_RUN return -77;
#include "honest.h"
