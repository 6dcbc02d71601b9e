/* Refused: ng_plugin_v1 returned 5:  */
#define IN_REGISTRATION host->error->len = (uint64_t)-1; return 5;
#include "honest.h"
