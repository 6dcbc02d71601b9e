/* Refused: it changes how the processor rounds (was it built with fast mathematics?): while it runs */
#include <fenv.h>
#define AFTER_RUN fesetround(FE_UPWARD);
#include "honest.h"
