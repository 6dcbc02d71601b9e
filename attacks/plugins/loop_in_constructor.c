/* Refused: it did not end within 2 s: while it is loaded */
#include "honest.h"

__attribute__((constructor)) static void start(void) {
    for (volatile int go = 1; go;) {}
}
