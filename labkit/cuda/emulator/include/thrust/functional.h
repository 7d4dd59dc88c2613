// Everything of Thrust stands in one file.
#pragma once
#include <thrust/thrust.h>
