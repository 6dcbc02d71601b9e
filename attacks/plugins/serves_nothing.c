/* Refused: its kernel of Relu supports none of 7 cases */
#define IN_QUERY return NG_NOT_SERVED;
#include "honest.h"
