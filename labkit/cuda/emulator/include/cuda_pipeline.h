#pragma once
#include "cuda/pipeline"
#include "cuemu/copies.h"
