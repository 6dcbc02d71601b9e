/* Refused: signal 8 (SIGFPE) ended it: while Relu runs */
#include <signal.h>
#define IN_RUN raise(SIGFPE);
#include "honest.h"
