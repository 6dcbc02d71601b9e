/* Refused: it ended the process with exit code 0: while it is loaded */
#include "honest.h"

#include <stdlib.h>

__attribute__((constructor)) static void start(void) { exit(0); }
