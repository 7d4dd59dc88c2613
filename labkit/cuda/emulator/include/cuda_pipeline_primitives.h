#pragma once
#include "cuemu/copies.h"
