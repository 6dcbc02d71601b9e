/* Refused: it was ended by signal 9 (SIGKILL): while it registers */
#include <signal.h>
#include <unistd.h>
#define IN_REGISTRATION kill(getpid(), SIGKILL);
#include "honest.h"
