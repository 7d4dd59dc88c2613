// Thrust's random numbers are the standard library's.
#pragma once
#include <random>

#include <thrust/thrust.h>

namespace thrust {
using default_random_engine = std::minstd_rand;
using std::minstd_rand;
using std::normal_distribution;
using std::uniform_int_distribution;
using std::uniform_real_distribution;
}  // namespace thrust
