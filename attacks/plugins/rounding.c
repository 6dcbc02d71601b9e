/* Refused: it changes the rounding mode of the processor (built with fast math?): while it runs */
#include <fenv.h>
#define AFTER_RUN fesetround(FE_UPWARD);
#include "honest.h"
