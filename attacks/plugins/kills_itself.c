/* Refused: signal 9 (SIGKILL) ended it: while it registers */
#include <signal.h>
#include <unistd.h>
#define IN_REGISTRATION kill(getpid(), SIGKILL);
#include "honest.h"
