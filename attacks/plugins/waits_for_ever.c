/* Refused: it did not end within 2 s: while Relu runs */
#include <unistd.h>
#define IN_RUN for (;;) pause();
#include "honest.h"
