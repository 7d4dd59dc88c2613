#ifndef LAB_ADD_H
#define LAB_ADD_H
// Way 3, the declarations: define the dtype, include the generic header, undefine, repeat. The
// guard matters: without it a second inclusion would define every struct again.
#include "general.h"

#define num uint8_t
#define Num Byte
#include "generic/add.h"
#undef num
#undef Num

#define num int8_t
#define Num Char
#include "generic/add.h"
#undef num
#undef Num

#define num int16_t
#define Num Short
#include "generic/add.h"
#undef num
#undef Num

#define num int32_t
#define Num Int
#include "generic/add.h"
#undef num
#undef Num

#define num int64_t
#define Num Long
#include "generic/add.h"
#undef num
#undef Num

#define num float
#define Num Float
#include "generic/add.h"
#undef num
#undef Num

#define num double
#define Num Double
#include "generic/add.h"
#undef num
#undef Num

#define num bool
#define Num Bool
#include "generic/add.h"
#undef num
#undef Num

#endif
