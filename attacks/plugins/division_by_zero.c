/* Refused: it was ended by signal 8 (SIGFPE): while Relu runs */
#include <signal.h>
#define IN_RUN raise(SIGFPE);
#include "honest.h"
