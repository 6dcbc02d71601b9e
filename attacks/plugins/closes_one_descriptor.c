/* Refused: it closed file descriptors of the process: while it registers */
#include <unistd.h>
#define IN_REGISTRATION close(0);
#include "honest.h"
