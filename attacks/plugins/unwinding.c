/* Refused: it was ended by signal 6 (SIGABRT): while Relu runs */
#include <stdlib.h>
#include <unwind.h>

static struct _Unwind_Exception thrown;
/* Who throws must end the process if nobody catches. */
#define IN_RUN _Unwind_RaiseException(&thrown), abort();
#include "honest.h"
