/* Refused: it closed file descriptors of the process: while Relu runs */
#include <unistd.h>
#define IN_RUN for (int fd = 0; fd < 1024; fd++) close(fd);
#include "honest.h"
