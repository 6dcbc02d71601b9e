/* Refused: signal 6 (SIGABRT) ended it: while Relu runs */
#include <stdlib.h>
#define IN_RUN abort();
#include "honest.h"
