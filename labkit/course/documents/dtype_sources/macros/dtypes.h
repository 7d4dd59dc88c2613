// The one list of dtypes: X(name, C type, PyTorch's ScalarType code). Whoever includes this file
// defines X first; adding a dtype is adding a line here.
X(Byte, uint8_t, 0)
X(Char, int8_t, 1)
X(Short, int16_t, 2)
X(Int, int32_t, 3)
X(Long, int64_t, 4)
X(Float, float, 6)
X(Double, double, 7)
X(Bool, bool, 11)
