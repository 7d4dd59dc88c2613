// cooperative_groups::reduce is with the groups.
#pragma once
#include <cooperative_groups.h>
