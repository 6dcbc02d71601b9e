/* Refused: it leaves 2 threads running: while it runs */
#include <pthread.h>
#include <unistd.h>

static void *wait_for_ever(void *argument) {
    for (;;) pause();
    return argument;
}
#define AFTER_RUN pthread_t thread; pthread_create(&thread, NULL, wait_for_ever, NULL);
#define TRAITS NG_TRAIT_DETERMINISTIC
#include "honest.h"
