/* Tabular Q-learning on tictactoe as one would write it in plain C: one env, one table, one thread.
   Learning rate .1, discount .99, epsilon .3, ties broken evenly, the opponent plays at random. */
#include <stdint.h>

float table[19683][9];
static const int power[9] = {6561, 2187, 729, 243, 81, 27, 9, 3, 1};
static unsigned char wins[512];
static uint64_t state = 88172645463325252ull;

static uint32_t draw(uint32_t n) { /* xorshift64*, scaled to below n */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((((state * 2685821657736338717ull) >> 32) * n) >> 32);
}

static int any(unsigned cells) { /* one of the cells, evenly */
    uint32_t skip = draw((uint32_t)__builtin_popcount(cells));
    while (skip--) cells &= cells - 1;
    return __builtin_ctz(cells);
}

static float best(const float *row, unsigned cells, unsigned *ties) {
    float most = -1e30f;
    *ties = 0;
    for (; cells; cells &= cells - 1) {
        int cell = __builtin_ctz(cells);
        if (row[cell] > most) most = row[cell], *ties = 1u << cell;
        else if (row[cell] == most) *ties |= 1u << cell;
    }
    return most;
}

static unsigned mine, theirs, empty;
static int id, mark; /* the learner is 1 or 2, whoever moves first is 1 */

static void reply(void) {
    int cell = any(empty);
    theirs |= 1u << cell, empty ^= 1u << cell, id += (3 - mark) * power[cell];
}

static void begin(void) {
    mine = theirs = 0, empty = 511, id = 0, mark = 1;
    if (draw(2)) mark = 2, reply();
}

void advance(int64_t steps) {
    if (!wins[7]) {
        static const unsigned lines[8] = {7, 56, 448, 73, 146, 292, 273, 84};
        for (unsigned board = 0; board < 512; board++)
            for (int i = 0; i < 8; i++) wins[board] |= (board & lines[i]) == lines[i];
        begin();
    }
    while (steps--) {
        unsigned ties;
        float *row = table[id];
        best(row, empty, &ties);
        int cell = any(draw(1u << 24) < (uint32_t)(.3 * (1u << 24)) ? empty : ties);
        mine |= 1u << cell, empty ^= 1u << cell, id += mark * power[cell];
        float worth = 0;
        int over = 1;
        if (wins[mine]) worth = 1;
        else if (empty) {
            reply();
            if (wins[theirs]) worth = -1;
            else if (empty) over = 0, worth = .99f * best(table[id], empty, &ties);
        }
        row[cell] += .1f * (worth - row[cell]);
        if (over) begin();
    }
}
