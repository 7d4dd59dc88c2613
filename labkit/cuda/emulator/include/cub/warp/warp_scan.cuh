// All collectives stand in one file.
#pragma once
#include <cub/cub.cuh>
