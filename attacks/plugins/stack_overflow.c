/* Refused: it was ended by signal 11 (SIGSEGV): while Relu runs */
static volatile int goes_on = 1;

static int deep(volatile char *last) {
    volatile char page[4096];
    page[0] = *last;
    return goes_on ? page[0] + deep(page) + deep(page + 1) : 0;
}
#define IN_RUN char first = 0; deep(&first);
#include "honest.h"
