/* A walk along a street, in the dark: the goal is somewhere on it, and every step tells only which way was right.
 *
 * cc -O2 -shared -fPIC -I"$(hotloop envs --include)" examples/native_c/walk.c -o walk.so
 * hotloop train native:walk.so --steps 200000
 */
#include <stddef.h>
#include <stdlib.h>

#include "hotloop.h"

enum { LEFT, STAY, RIGHT };

typedef struct {
    int32_t place;
    int32_t goal;
    float hint; /* 1: the goal lies to the right, -1: to the left, 0: not known yet */
    int32_t length;
} walk;

static int32_t reset(void *state, const hotloop_value *options, const hotloop_rng *rng) {
    walk *me = state;
    hotloop_stream draws = hotloop_draws(rng);
    me->length = (int32_t)options[0].whole;
    me->place = me->length / 2;
    me->goal = (int32_t)hotloop_below(draws, 0, (uint32_t)me->length);
    me->hint = 0;
    return 0;
}

static int32_t step(void *state, const hotloop_value *options, const hotloop_rng *rng, const void *actions, float *terms,
                    uint8_t *terminated, float *metrics) {
    walk *me = state;
    int32_t move = *(const int32_t *)actions - STAY, before = abs(me->goal - me->place);
    me->place += move;
    if (move != 0) me->hint = (float)(move * (before - abs(me->goal - me->place)));
    terms[0] = -0.1f;
    (void)options, (void)rng;
    if (me->place != me->goal) return HOTLOOP_RUNNING;
    terms[1] = 1;
    metrics[0] = 1;
    terminated[0] = 1;
    return HOTLOOP_OVER;
}

static int32_t observe(const void *state, const hotloop_value *options, void *observation, uint8_t *mask, uint8_t *valid) {
    const walk *me = state;
    float *seen = observation;
    seen[0] = 2.0f * (float)me->place / (float)me->length - 1.0f;
    seen[1] = me->hint;
    mask[LEFT] = me->place > 0;
    mask[RIGHT] = me->place < me->length - 1;
    (void)options, (void)valid;
    return 0;
}

static int32_t check(const void *state, const hotloop_value *options) {
    const walk *me = state;
    (void)options;
    return me->length < 2 || me->place < 0 || me->place >= me->length || me->goal < 0 || me->goal >= me->length;
}

static int32_t render(const void *state, const hotloop_value *options, char *text, uint64_t room) {
    const walk *me = state;
    uint64_t length = (uint64_t)me->length < room ? (uint64_t)me->length : room;
    (void)options;
    for (uint64_t i = 0; i < length; i++) text[i] = '.';
    if ((uint64_t)me->goal < length) text[me->goal] = 'o';
    if ((uint64_t)me->place < length) text[me->place] = '@';
    return (int32_t)length;
}

const hotloop_env *hotloop_env_table(void) {
    static const uint64_t shape[] = {2};
    static const float low[] = {-1, -1}, high[] = {1, 1};
    static const uint32_t choices[] = {3};
    static const char *const terms[] = {"effort", "goal"}, *const metrics[] = {"success"};
    static const hotloop_option options[] = {
        {.name = "length", .about = "places along the street", .kind = HOTLOOP_WHOLE, .value.whole = 16, .low = 2, .high = 64},
    };
    static const hotloop_field fields[] = {
        {"place", HOTLOOP_I32, 1, offsetof(walk, place)},
        {"goal", HOTLOOP_I32, 1, offsetof(walk, goal)},
        {"hint", HOTLOOP_F32, 1, offsetof(walk, hint)},
        {"length", HOTLOOP_I32, 1, offsetof(walk, length)},
    };
    static const hotloop_env table = {
        .abi = HOTLOOP_ABI,
        .table_bytes = sizeof table,
        .name = "walk",
        .about = "Find a place on a dark street.",
        .state_bytes = sizeof(walk),
        .state_alignment = _Alignof(walk),
        .state_version = 1,
        .seats = 1,
        .observation_kind = HOTLOOP_OBSERVE_NUMBERS,
        .observation_dims = 1,
        .observation_shape = shape,
        .observation_low = low,
        .observation_high = high,
        .action_kind = HOTLOOP_CHOOSE,
        .action_width = 1,
        .action_choices = choices,
        .masked = 1,
        .max_steps = 64,
        .term_count = 2,
        .terms = terms,
        .metric_count = 1,
        .metrics = metrics,
        .option_count = 1,
        .options = options,
        .field_count = 4,
        .fields = fields,
        .step_nanoseconds = 30,
        .reset = reset,
        .step = step,
        .observe = observe,
        .check = check,
        .render = render,
    };
    return &table;
}
