/* Refused: it did not end within 2 s: while it registers */
#include <unistd.h>
/* The parent ends well; its child holds the pipe open. */
#define IN_REGISTRATION if (fork() == 0) for (;;) pause(); else for (;;) pause();
#include "honest.h"
