/* Refused: it fails: result -77: it does not say why */
#define IN_RUN return -77;
#include "honest.h"
