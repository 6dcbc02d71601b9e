/* Refused: it was ended by signal 25 (SIGXFSZ): while it registers */
#include <stdio.h>
#define IN_REGISTRATION \
    FILE *file = tmpfile(); \
    if (file) fputs("a file", file), fflush(file);
#include "honest.h"
