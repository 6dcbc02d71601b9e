/* Refused: it was ended by signal 6 (SIGABRT): while Relu runs */
#include <stdlib.h>
#define IN_RUN abort();
#include "honest.h"
