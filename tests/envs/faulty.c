/* An env of two agents that does what it is asked to: action 1 fails in the way that the option `fault` says. BREAK is a
 * statement that spoils the table; with PLAY there is a function for many envs at once. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "hotloop.h"

#ifndef BREAK
#define BREAK
#endif

enum { NOTHING, IN_STEP, IN_RESET, IN_OBSERVE, NOT_FINITE, ALL_FORBIDDEN, STATUS };

typedef struct {
    double total;
    int64_t count;
    uint8_t failing, after[3];
} me;

static int32_t reset(void *state, const hotloop_value *options, const hotloop_rng *rng) {
    me *self = state;
    int32_t fails = self->failing && options[0].whole == IN_RESET;
    self->total = hotloop_uniform(hotloop_episode_draws(rng), 3);
    self->count = 0;
    self->failing = 0;
    return fails ? -5 : 0;
}

static int32_t step(void *state, const hotloop_value *options, const hotloop_rng *rng, const void *actions, float *terms,
                    uint8_t *terminated, float *metrics) {
    me *self = state;
    const int32_t *choices = actions;
    (void)rng, (void)metrics;
    self->failing = choices[0] == 1;
    self->count += 1;
    self->total += options[1].number;
    for (int agent = 0; agent < 2; agent++) terms[agent] = (float)choices[2 * agent + 1];
    if (self->failing && options[0].whole == IN_STEP) return -7;
    if (self->failing && options[0].whole == STATUS) return 3;
    if (self->failing && options[0].whole == IN_RESET) return HOTLOOP_TIME_UP;
    if (self->failing && options[0].whole == NOTHING) {
        terminated[0] = terminated[1] = 255;
        return HOTLOOP_OVER;
    }
    return HOTLOOP_RUNNING;
}

static int32_t observe(const void *state, const hotloop_value *options, void *observation, uint8_t *mask, uint8_t *valid) {
    const me *self = state;
    float *seen = observation;
    int64_t fault = self->failing ? options[0].whole : NOTHING;
    (void)valid;
    for (int agent = 0; agent < 2; agent++) seen[agent] = (float)self->total + (float)agent;
    if (fault == NOT_FINITE) seen[1] = NAN;
    for (int i = 0; fault == ALL_FORBIDDEN && i < 10; i++) mask[i] = 0;
    return fault == IN_OBSERVE ? -9 : 0;
}

static int32_t explain(int32_t status, char *text, uint64_t room) {
    return status == -9 ? snprintf(text, room, "a bad day") : 0;
}

#ifdef PLAY
static void play(uint64_t count, void *states, const hotloop_value *options, const hotloop_rng *rngs, const void *actions,
                 float *terms, uint8_t *terminated, float *metrics, void *observations, uint8_t *masks, uint8_t *valid,
                 const uint32_t *waiting, int32_t *results) {
    for (uint64_t i = 0; i < count; i++) {
        if (waiting[i]) continue;
        me *state = (me *)states + i;
        const int32_t *choices = (const int32_t *)actions + 4 * i;
        results[2 * i] = step(state, options, rngs + i, choices, terms + 2 * i, terminated + 2 * i, metrics);
        results[2 * i + 1] = observe(state, options, (float *)observations + 2 * i, masks + 10 * i, valid + 2 * i);
    }
}
#endif

#ifndef NO_TABLE
const hotloop_env *hotloop_env_table(void) {
    static uint64_t shape[] = {1};
    static uint32_t choices[] = {2, 3};
    static const char *words[] = {"nothing", "in_step", "in_reset", "in_observe", "not_finite", "all_forbidden", "status"};
    static hotloop_option options[] = {
        {.name = "fault", .kind = HOTLOOP_WORD, .word_count = 7, .words = words},
        {.name = "pace", .kind = HOTLOOP_NUMBER, .value.number = 0.5, .low = 0, .high = 10},
        {.name = "loud", .kind = HOTLOOP_YES_NO},
    };
    static hotloop_field fields[] = {
        {"count", HOTLOOP_I64, 1, offsetof(me, count)},
        {"total", HOTLOOP_F64, 1, offsetof(me, total)},
    };
    static hotloop_env table = {
        .abi = HOTLOOP_ABI,
        .table_bytes = sizeof table,
        .name = "faulty",
        .state_bytes = sizeof(me),
        .state_alignment = 8,
        .seats = 2,
        .observation_kind = HOTLOOP_OBSERVE_NUMBERS,
        .observation_dims = 1,
        .observation_shape = shape,
        .action_kind = HOTLOOP_CHOOSE_EACH,
        .action_width = 2,
        .action_choices = choices,
        .masked = 1,
        .option_count = 3,
        .options = options,
        .field_count = 2,
        .fields = fields,
        .reset = reset,
        .step = step,
        .observe = observe,
        .explain = explain,
#ifdef PLAY
        .play = play,
#endif
    };
    BREAK;
    return &table;
}
#endif
