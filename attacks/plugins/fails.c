/* Refused: it fails: result 1: it does not say why */
#define IN_RUN return NG_FAILED;
#include "honest.h"
