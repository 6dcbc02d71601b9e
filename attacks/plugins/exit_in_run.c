/* Refused: it ended the process with exit code 0: while Relu runs */
#include <stdlib.h>
#define IN_RUN exit(0);
#include "honest.h"
