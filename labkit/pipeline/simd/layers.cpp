// Layers of a network on planes of floats, a vector of columns at a time.
//
// A picture is worked on in strips of rows. A layer that looks one row up and down computes, for a
// strip, the rows that later layers still look at; what lies outside of the picture is zero. So all
// planes of a strip stay in the cache, and memory does not grow with the picture.
//
// A plane is [rows][pitch]; column 0 of the picture stands LANES into a row, zeros on both sides.

#include <algorithm>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#else
constexpr int LANES = 4, REGISTERS = 16;
#endif
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

constexpr int GROUP = 8;  // channels of a result that are computed together
constexpr int MOST_VECTORS = 4;
constexpr int BLOCK = MOST_VECTORS * LANES;  // rows are as long as whole blocks, of any size

enum Kind { CONVOLUTION, RELU, ADD };

struct Step {
    int kind, first, second, result, channels_in, channels_out, relu, halo;
    const float *weights, *bias;  // [group][in][3][3][GROUP or the rest], [out]
};

struct Plane {
    float *data;  // [channels][rows][pitch]
    long rows, pitch;
    float *row(long channel, long at) const { return data + (channel * rows + at) * pitch; }
};

static void clear(float *row, long width, long pitch) {
    std::memset(row, 0, 4 * LANES);
    std::memset(row + LANES + width, 0, 4 * (pitch - LANES - width));
}

// How many vectors of columns fit, with `count` channels, into the half of the registers for sums.
constexpr int vectors_of(int count) {
    int vectors = MOST_VECTORS;
    while (vectors > 1 && vectors * count > REGISTERS / 2) vectors /= 2;
    return vectors;
}

// The row's results of `count` channels from `out` on.
template <int count>
static void convolve(const Step &step, Plane x, Plane y, long at, long width, int out) {
    constexpr int vectors = vectors_of(count);
    const float *weights = step.weights + long(out) * step.channels_in * 9;
    for (long column = 0; column < width; column += vectors * LANES) {
        Vector sums[count][vectors];
        for (int o = 0; o < count; o++)
            for (int v = 0; v < vectors; v++)
                sums[o][v] = Vector{} + (step.bias ? step.bias[out + o] : 0.0f);
        for (int i = 0; i < step.channels_in; i++)
            for (int up = 0; up < 3; up++) {
                const float *row = x.row(i, at + up - 1) + LANES + column - 1;
                const float *w = weights + (i * 3 + up) * 3 * count;
                for (int left = 0; left < 3; left++)
                    for (int v = 0; v < vectors; v++) {
                        Vector pixels = *(const Vector *)(row + left + v * LANES);
                        for (int o = 0; o < count; o++) sums[o][v] += w[left * count + o] * pixels;
                    }
            }
        for (int o = 0; o < count; o++)
            for (int v = 0; v < vectors; v++) {
                Vector sum = sums[o][v];
                if (step.relu) sum = sum < 0 ? Vector{} : sum;  // NaN stays NaN
                *(Vector *)(y.row(out + o, at) + LANES + column + v * LANES) = sum;
            }
    }
}

static void convolve_row(const Step &step, Plane x, Plane y, long at, long width) {
    for (int out = 0; out < step.channels_out; out += GROUP) {
        switch (std::min(GROUP, step.channels_out - out)) {
            case 1: convolve<1>(step, x, y, at, width, out); break;
            case 2: convolve<2>(step, x, y, at, width, out); break;
            case 3: convolve<3>(step, x, y, at, width, out); break;
            case 4: convolve<4>(step, x, y, at, width, out); break;
            case 5: convolve<5>(step, x, y, at, width, out); break;
            case 6: convolve<6>(step, x, y, at, width, out); break;
            case 7: convolve<7>(step, x, y, at, width, out); break;
            case 8: convolve<8>(step, x, y, at, width, out); break;
        }
    }
    for (int out = 0; out < step.channels_out; out++)
        clear(y.row(out, at), width, y.pitch);  // the last block went past the picture
}

static void element_wise(const Step &step, Plane a, Plane b, Plane y, long at) {
    for (int channel = 0; channel < step.channels_out; channel++) {
        const float *first = a.row(channel, at), *second = b.row(channel, at);
        float *row = y.row(channel, at);
        for (long column = 0; column < y.pitch; column++) {
            float value = step.kind == ADD ? first[column] + second[column] : first[column];
            row[column] = step.kind == RELU && value < 0 ? 0 : value;
        }
    }
}

extern "C" int lanes() { return LANES; }

// Floats of a row of a plane.
extern "C" long pitch_of(long width) { return (width + BLOCK - 1) / BLOCK * BLOCK + 2 * LANES; }

// The steps have run on one picture. Strides are of channel, row and column, in floats; `planes[p]`
// is the first channel of plane p in `work`, which has `strip + 2 * halo` rows for each channel.
extern "C" void run(const Step *steps, int count, const int *planes, const float *x,
                    const long *strides, int channels, float *result, const long *result_strides,
                    long height, long width, float *work, long strip, long halo) {
    const long pitch = pitch_of(width), rows = strip + 2 * halo;
    auto plane = [&](int number) {
        return Plane{work + long(planes[number]) * rows * pitch, rows, pitch};
    };
    for (long top = 0; top < height; top += strip) {
        const long bottom = std::min(top + strip, height);
        const Plane input = plane(0);
        for (int channel = 0; channel < channels; channel++)
            for (long at = top - halo; at < bottom + halo; at++) {
                float *row = input.row(channel, at - top + halo);
                if (at < 0 || at >= height) {
                    std::memset(row, 0, 4 * pitch);
                    continue;
                }
                const float *from = x + channel * strides[0] + at * strides[1];
                for (long column = 0; column < width; column++)
                    row[LANES + column] = from[column * strides[2]];
                clear(row, width, pitch);
            }
        for (int number = 0; number < count; number++) {
            const Step &step = steps[number];
            const Plane first = plane(step.first), second = plane(step.second);
            const Plane to = plane(step.result);
            for (long at = top - step.halo; at < bottom + step.halo; at++) {
                const long row = at - top + halo;
                if (at < 0 || at >= height)
                    for (int out = 0; out < step.channels_out; out++)
                        std::memset(to.row(out, row), 0, 4 * pitch);
                else if (step.kind == CONVOLUTION)
                    convolve_row(step, first, to, row, width);
                else
                    element_wise(step, first, second, to, row);
            }
        }
        const Step &last = steps[count - 1];
        const Plane from = plane(last.result);
        for (int out = 0; out < last.channels_out; out++)
            for (long at = top; at < bottom; at++) {
                const float *row = from.row(out, at - top + halo) + LANES;
                float *to = result + out * result_strides[0] + at * result_strides[1];
                for (long column = 0; column < width; column++)
                    to[column * result_strides[2]] = row[column];
            }
    }
}
