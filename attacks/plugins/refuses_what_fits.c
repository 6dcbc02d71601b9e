/* Refused: it refuses it: it does not say why */
#define IN_RUN return NG_MISFIT;
#include "honest.h"
