#ifndef LAB_GENERAL_H
#define LAB_GENERAL_H

#include <stdbool.h>
#include <stdint.h>

// Two steps, because ## glues its operands before they are expanded: CONCAT_3(Num, ...) must see
// Float, not Num.
#define CONCAT_2_EXPAND(A, B) A##B
#define CONCAT_2(A, B) CONCAT_2_EXPAND(A, B)
#define CONCAT_3_EXPAND(A, B, C) A##B##C
#define CONCAT_3(A, B, C) CONCAT_3_EXPAND(A, B, C)

#define Vector CONCAT_2(Num, Vector)
#define Vector_(NAME) CONCAT_3(Num, Vector_, NAME)

#endif
