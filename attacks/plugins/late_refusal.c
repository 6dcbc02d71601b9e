/* Refused: run returned NG_NOT_SERVED, which only query may return */
#define IN_RUN return NG_NOT_SERVED;
#include "honest.h"
