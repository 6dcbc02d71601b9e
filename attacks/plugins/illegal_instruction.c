/* Refused: signal 4 (SIGILL) ended it: while Relu runs */
#include <signal.h>
#define IN_RUN raise(SIGILL);
#include "honest.h"
