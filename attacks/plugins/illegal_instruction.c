/* Refused: it was ended by signal 4 (SIGILL): while Relu runs */
#include <signal.h>
#define IN_RUN raise(SIGILL);
#include "honest.h"
