/* Refused: it rejects valid tensors: it gives no reason */
#define IN_RUN return NG_MISFIT;
#include "honest.h"
