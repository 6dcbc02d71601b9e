/* Refused: it leaves 1 threads running: while it registers */
#include <pthread.h>
#include <unistd.h>

static void *wait_for_ever(void *argument) {
    for (;;) pause();
    return argument;
}
#define IN_REGISTRATION pthread_t thread; pthread_create(&thread, NULL, wait_for_ever, NULL);
#include "honest.h"
