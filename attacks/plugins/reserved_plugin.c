/* Refused: a reserved field of NgPlugin is not 0 */
#define CHANGE_KERNEL plugin->reserved = 1;
#include "honest.h"
