/* Refused: it requests 9223372036854775807 bytes of scratch memory; at most */
#define SCRATCH_BYTES INT64_MAX
#include "honest.h"
