"""Right and wrong answers to the exercises of the matrix product in tiles."""

from labkit.course.checks import outcomes
from labkit.course.exercises import find
from tests.course.answers import Answers, first_hint

answers = Answers("memory_and_cuda_practices")
CONSTANT = "returns the literal answer of the example in the statement"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return lambda: text


# --- tile_reads, patch_reads


@answers.right("tile_reads")
def tile_reads(columns, tile):
    return -(-columns // tile)


@answers.right("patch_reads")
def patch_reads(rows, columns):
    return (rows + columns) / (rows * columns)


for name, why, answer in [
    ("tile_reads", "rounds down", lambda columns, tile: max(1, columns // tile)),
    ("tile_reads", "one read per column", lambda columns, tile: columns),
    ("tile_reads", "reads half a number", lambda columns, tile: columns / tile),
    ("patch_reads", "square patches only", lambda rows, columns: 2 / rows),
    (
        "patch_reads",
        "counts products per read",
        lambda rows, columns: rows * columns / (rows + columns),
    ),
    ("tile_reads", "knows 500 columns", lambda columns, tile: -(-min(columns, 504) // tile)),
    (
        "patch_reads",
        "knows patches up to 8 x 8",
        lambda rows, columns: patch_reads(min(rows, 8), min(columns, 8)),
    ),
    ("patch_reads", "two reads each", lambda rows, columns: 2.0),
    ("tile_reads", CONSTANT, lambda columns, tile: 4),
    ("patch_reads", CONSTANT, lambda rows, columns: 1.5),
]:
    answers.wrong(name, why)(answer)

# --- edges

EDGES = r"""extern "C" __global__
void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    float sum = 0;
    for (int first = 0; first < K; first += 32) {
        tile_a[ty][tx] = row < M && first + tx < K ? a[row * K + first + tx] : 0;
        tile_b[ty][tx] = first + ty < K && col < N ? b[(first + ty) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) c[row * N + col] = sum;
}
"""
GUARD_A = "row < M && first + tx < K ? a[row * K + first + tx] : 0"
GUARD_B = "first + ty < K && col < N ? b[(first + ty) * N + col] : 0"
STORE = "if (row < M && col < N) c"

answers.right("edges")(lambda: EDGES)
answers.right("edges")(changed(EDGES, ("k < 32;", "k < 32 && first + k < K;")))

ONLY_INSIDE = (
    "tile_a[ty][tx] = " + GUARD_A,
    "if (row < M && first + tx < K) tile_a[ty][tx] = a[row * K + first + tx]",
)
LEAVES = ("    float sum = 0;", "    if (row >= M || col >= N) return;\n    float sum = 0;")
ONE_THREAD = r"""extern "C" __global__
void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    if (threadIdx.x || threadIdx.y) return;
    for (int i = blockIdx.y * 32; i < M && i < blockIdx.y * 32 + 32; ++i)
        for (int j = blockIdx.x * 32; j < N && j < blockIdx.x * 32 + 32; ++j) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }
}
"""
for why, answer in [
    (
        "multiples of the tile only",
        changed(
            EDGES,
            (GUARD_A, "a[row * K + first + tx]"),
            (GUARD_B, "b[(first + ty) * N + col]"),
            (STORE, "c"),
        ),
    ),
    (
        "leaves the kernel at the edge, before a barrier",
        changed(EDGES, LEAVES),
    ),
    (
        "keeps the old number in the tile",
        changed(EDGES, ONLY_INSIDE),
    ),
    ("guards the rows and not k", changed(EDGES, ("row < M && first + tx < K", "row < M"))),
    ("one thread does the work of a block", lambda: ONE_THREAD),
    ("writes to a", changed(EDGES, (STORE, "((float*)a)[0] = 99;\n    " + STORE))),
    ("sums in whole numbers", changed(EDGES, ("float sum", "int sum"))),
    ("three tiles at most", changed(EDGES, ("first < K;", "first < K && first < 96;"))),
    ("three tiles at most", changed(EDGES, (STORE, "if (row >= 64) return;\n    " + STORE))),
    ("three tiles at most", changed(EDGES, (STORE, "if (col >= 96) return;\n    " + STORE))),
]:
    answers.wrong("edges", why)(answer)

# --- matmul_ladder

PATCHES = r"""extern "C" __global__
void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float tile_a[32][33], tile_b[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    int top = blockIdx.y * 32, left = blockIdx.x * 32;
    float s00 = 0, s01 = 0, s10 = 0, s11 = 0;
    for (int first = 0; first < K; first += 32) {
        for (int i = t; i < 1024; i += 256) {
            int y = i / 32, x = i % 32;
            tile_a[y][x] = top + y < M && first + x < K ? a[(top + y) * K + first + x] : 0;
            tile_b[y][x] = first + y < K && left + x < N ? b[(first + y) * N + left + x] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            float a0 = tile_a[ty][k], a1 = tile_a[ty + 16][k];
            float b0 = tile_b[k][tx], b1 = tile_b[k][tx + 16];
            s00 += a0 * b0, s01 += a0 * b1, s10 += a1 * b0, s11 += a1 * b1;
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int row = top + ty + 16 * i, col = left + tx + 16 * j;
            float sum = i ? (j ? s11 : s10) : (j ? s01 : s00);
            if (row < M && col < N) c[row * N + col] = sum;
        }
}
"""
LOAD_A = "top + y < M && first + x < K ? a[(top + y) * K + first + x] : 0"
LOAD_B = "first + y < K && left + x < N ? b[(first + y) * N + left + x] : 0"
AFTER = "        }\n        __syncthreads();\n    }\n"
PRODUCTS = "s00 += a0 * b0, s01 += a0 * b1, s10 += a1 * b0, s11 += a1 * b1;"
answers.right("matmul_ladder")(lambda: PATCHES)
answers.right("matmul_ladder")(changed(PATCHES, ("tile_b[32][32]", "tile_b[32][33]")))
NEIGHBOURS = r"""extern "C" __global__
void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float tile_a[32][33], tile_b[32][33];
    int t = threadIdx.y * 16 + threadIdx.x, x = t % 32, y = t / 32;
    int top = blockIdx.y * 32, left = blockIdx.x * 32;
    float sum[4] = {};
    for (int first = 0; first < K; first += 32) {
        for (int i = 0; i < 4; ++i) {
            int r = y + 8 * i;
            tile_a[r][x] = top + r < M && first + x < K ? a[(top + r) * K + first + x] : 0;
            tile_b[r][x] = first + r < K && left + x < N ? b[(first + r) * N + left + x] : 0;
        }
        __syncthreads();
        int ty = threadIdx.y, tx = threadIdx.x;
        for (int k = 0; k < min(32, K - first); ++k) {
            float p[2] = {tile_a[ty][k], tile_a[ty + 16][k]};
            float q[2] = {tile_b[k][tx], tile_b[k][tx + 16]};
            for (int i = 0; i < 4; ++i) sum[i] += p[i / 2] * q[i % 2];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        int row = top + threadIdx.y + i / 2 * 16, col = left + threadIdx.x + i % 2 * 16;
        if (row < M && col < N) c[row * N + col] = sum[i];
    }
}
"""
answers.right("matmul_ladder")(lambda: NEIGHBOURS)

ONE_EACH = (
    "float a0 = tile_a[ty][k], a1 = tile_a[ty + 16][k];\n"
    "            float b0 = tile_b[k][tx], b1 = tile_b[k][tx + 16];\n            " + PRODUCTS,
    "s00 += tile_a[ty][k] * tile_b[k][tx]; __syncwarp();\n"
    "            s01 += tile_a[ty][k] * tile_b[k][tx + 16]; __syncwarp();\n"
    "            s10 += tile_a[ty + 16][k] * tile_b[k][tx]; __syncwarp();\n"
    "            s11 += tile_a[ty + 16][k] * tile_b[k][tx + 16];",
)
STALE = [
    (f"{tile} = {load}", f"if (first == 0 || {inside}) {tile} = {load}")
    for tile, load, inside in (
        ("tile_a[y][x]", LOAD_A, "first + x < K"),
        ("tile_b[y][x]", LOAD_B, "first + y < K"),
    )
]
NO_BARRIER = (
    "        }\n        __syncthreads();\n        for (int k",
    "        }\n        for (int k",
)
NO_TILE = r"""extern "C" __global__
void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int row = blockIdx.y * 32 + threadIdx.y + 16 * i;
            int col = blockIdx.x * 32 + threadIdx.x + 16 * j;
            float sum = 0;
            for (int k = 0; k < K && row < M && col < N; ++k)
                sum += a[row * K + k] * b[k * N + col];
            if (row < M && col < N) c[row * N + col] = sum;
        }
}
"""
for why, answer in [
    (
        "multiples of the tile only",
        changed(
            PATCHES,
            (LOAD_A, LOAD_A[LOAD_A.index("a[") : -4]),
            ("if (row < M && col < N) ", ""),
        ),
    ),
    ("second barrier missing", changed(PATCHES, (AFTER, "        }\n    }\n"))),
    ("a tile without padding", changed(PATCHES, ("[32][33]", "[32][32]"))),
    (
        "tile read by column",
        changed(
            PATCHES,
            ("tile_b[32][32]", "tile_b[32][32]"),
            ("tile_b[y][x]", "tile_b[x][y]"),
            ("tile_b[k][tx], b1 = tile_b[k][tx + 16]", "tile_b[tx][k], b1 = tile_b[tx + 16][k]"),
        ),
    ),
    ("reads the tile for each product", changed(PATCHES, ONE_EACH)),
    ("K loop starts from stale shared memory", changed(PATCHES, *STALE)),
    ("no tile at all", lambda: NO_TILE),
    (ORDERS, changed(PATCHES, NO_BARRIER)),
    ("leaves part of C as it was", changed(PATCHES, ("j < 2", "j < 1"))),
    ("adds to what was in C", changed(PATCHES, ("N + col] = sum", "N + col] += sum"))),
]:
    answers.wrong("matmul_ladder", why)(answer)

FETCH = """            float a0 = tile_a[ty][k], a1 = tile_a[ty + 16][k];
            float b0 = tile_b[k][tx], b1 = tile_b[k][tx + 16];
"""
TWICE = """            float a0 = tile_a[ty][k], b0 = tile_b[k][tx], b1 = tile_b[k][tx + 16];
            s00 += a0 * b0, s01 += a0 * b1;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            float a1 = tile_a[ty + 16][k], b0 = tile_b[k][tx], b1 = tile_b[k][tx + 16];
            s10 += a1 * b0, s11 += a1 * b1;
"""
HALF = changed(PATCHES, (f"{FETCH}            {PRODUCTS}\n", TWICE))
answers.wrong("matmul_ladder", "keeps nothing in registers")(HALF)

test_answers = answers.tests()


def test_a_kernel_for_whole_tiles_passes_the_first_stage():
    whole = changed(
        EDGES,
        (GUARD_A, "a[row * K + first + tx]"),
        (GUARD_B, "b[(first + ty) * N + col]"),
        (STORE, "c"),
    )
    states = [one.state for one in outcomes(find("memory_and_cuda_practices.edges"), whole, 11)]
    assert states == ["done", "wrong"]


def test_an_unpadded_tile_is_told_of_the_bank():
    unpadded = changed(PATCHES, ("[32][33]", "[32][32]"))
    hint = first_hint(find("memory_and_cuda_practices.matmul_ladder"), unpadded)
    assert "meet in a bank" in hint


def test_a_fill_by_half_rows_is_told_of_its_writes():
    fill = PATCHES[PATCHES.index("        for (int i = t;") : PATCHES.index("        __sync")]
    halves = """        for (int y = ty; y < 32; y += 16)
            for (int x = tx; x < 32; x += 16) {
                tile_a[y][x] = LOAD_A;
                tile_b[y][x] = LOAD_B;
            }
"""
    halves = halves.replace("LOAD_A", LOAD_A).replace("LOAD_B", LOAD_B)
    hint = first_hint(
        find("memory_and_cuda_practices.matmul_ladder"), changed(PATCHES, (fill, halves))
    )
    assert "in the writes" in hint


def test_an_access_outside_is_told_of_before_the_race_it_brings():
    unguarded = changed(EDGES, ("first + ty < K && col < N", "col < N"))
    assert "outside the matrix" in first_hint(find("memory_and_cuda_practices.edges"), unguarded)
