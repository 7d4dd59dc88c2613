// Way 3, the bodies: the same walk over the dtypes, this time through the generic source.
#include "add.h"

#define num uint8_t
#define Num Byte
#include "generic/add.c"
#undef num
#undef Num

#define num int8_t
#define Num Char
#include "generic/add.c"
#undef num
#undef Num

#define num int16_t
#define Num Short
#include "generic/add.c"
#undef num
#undef Num

#define num int32_t
#define Num Int
#include "generic/add.c"
#undef num
#undef Num

#define num int64_t
#define Num Long
#include "generic/add.c"
#undef num
#undef Num

#define num float
#define Num Float
#include "generic/add.c"
#undef num
#undef Num

#define num double
#define Num Double
#include "generic/add.c"
#undef num
#undef Num

#define num bool
#define Num Bool
#include "generic/add.c"
#undef num
#undef Num

// The table a caller looks a dtype code up in: the list once more, through another X.
typedef int (*add_function)(void *, const void *, const void *);

add_function add_for(int dtype) {
    switch (dtype) {
#define X(NAME, CTYPE, CODE) \
    case CODE: return (add_function)NAME##Vector_add;
#include "dtypes.h"
#undef X
    }
    return 0;
}
