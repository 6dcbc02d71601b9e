/* Refused: its kernel of Relu supports none of the 7 test cases */
#define IN_QUERY return NG_NOT_SERVED;
#include "honest.h"
