/* Refused: it closed file descriptors of the process: while it runs */
#include <fcntl.h>
#include <unistd.h>
#define IN_RUN dup2(open("/", O_RDONLY), 2);
#include "honest.h"
