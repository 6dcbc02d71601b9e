/* Refused: the name of a device has 4294967296 bytes; at most */
#define CHANGE_KERNEL device.name.len = 1ull << 32;
#include "honest.h"
